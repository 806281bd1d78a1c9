/** What is done again and again. Tests put their own in its place. */

/** Runs the task each time so many milliseconds have passed. Returns what ends it. */
export type Every = (ms: number, task: () => void) => () => void;

/** Keeps no process alive. */
export const everyInterval: Every = (ms, task) => {
  const timer = setInterval(task, ms).unref();
  return () => clearInterval(timer);
};
