/** Lets bull-board's own code change things: what it sends carries the login's token, too. */
const session = fetch('/v1/session').then((response) => (response.ok ? response.json() : {}));
const { send } = XMLHttpRequest.prototype;
const { open } = XMLHttpRequest.prototype;
const methods = new WeakMap();

XMLHttpRequest.prototype.open = function openNoted(method, ...rest) {
  methods.set(this, String(method).toUpperCase());
  return open.call(this, method, ...rest);
};

XMLHttpRequest.prototype.send = function sendGuarded(body) {
  if (['GET', 'HEAD'].includes(methods.get(this))) return send.call(this, body);
  session.then(({ csrfToken }) => {
    if (csrfToken) this.setRequestHeader('x-csrf-token', csrfToken);
    send.call(this, body);
  });
};
