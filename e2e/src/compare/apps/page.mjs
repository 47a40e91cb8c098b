import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

/** A page, in a process: it has a screen, and a storage that the next page finds again. The runner asks, stops and kills it. */

const { SERVER, STORAGE } = process.env;
const report = (news) => process.send(news);

let stored = existsSync(STORAGE) ? JSON.parse(readFileSync(STORAGE, 'utf8')) : {};
const write = (changed) => {
  stored = changed;
  // A page that is killed leaves the whole of what it stored, or of what was stored before.
  writeFileSync(`${STORAGE}.next`, JSON.stringify(stored));
  renameSync(`${STORAGE}.next`, STORAGE);
};
/** As `sessionStorage`. */
const storage = {
  getItem: (key) => stored[key] ?? null,
  setItem: (key, value) => write({ ...stored, [key]: `${value}` }),
  removeItem: (key) => write(Object.fromEntries(Object.entries(stored).filter(([name]) => name !== key))),
};

const settle = (promise) =>
  promise.then(
    () => report({ outcome: 'whole' }),
    (error) => report({ outcome: 'error', text: `${error?.message ?? error}` }),
  );

const { open } = await import(process.argv[2]);
const app = await open({
  server: SERVER,
  storage,
  show: (word) => report({ word }),
  clear: () => report({ clear: true }),
});
process.on('message', ({ ask, stop }) => {
  if (ask !== undefined) settle(app.ask(ask));
  if (stop === true)
    Promise.resolve(app.stop()).catch((error) => report({ outcome: 'error', text: `${error}` }));
});
// An answer that the page before has begun.
if (app.resume !== undefined) settle(app.resume());
else report({ nothing: true });
report({ ready: true });
