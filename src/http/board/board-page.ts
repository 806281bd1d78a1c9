/** bull-board's page without what our content policy forbids: styles in line and fonts from elsewhere. */
import { assetUrl } from '../pages/assets.ts';
import { Html, html } from '../pages/html.ts';

/** @param template bull-board's own page, which names its scripts and styles */
export function boardPage(template: string, { basePath, uiConfig, title }: Record<string, string>) {
  const styles = [...template.matchAll(/<link href="(static\/[^"]+\.css)"/g)];
  const scripts = [...template.matchAll(/<script defer src="(static\/[^"]+\.js)"/g)];
  const document = html`<!doctype html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<base href="${basePath ?? ''}">
<title>${title ?? ''}</title>
<link rel="icon" href="${assetUrl('icon.svg')}" type="image/svg+xml">
${styles.map(([, address = '']) => html`<link rel="stylesheet" href="${address}">`)}
</head>
<body>
<script id="__UI_CONFIG__" type="application/json">${new Html(uiConfig ?? '{}')}</script>
<div id="root"></div>
<script defer src="${assetUrl('board.js')}"></script>
${scripts.map(([, address = '']) => html`<script defer src="${address}"></script>`)}
</body>
</html>
`;
  return document.text;
}
