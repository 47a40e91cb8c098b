import { sqlite } from '../sqlite.js';

/** Opens a file, says so or why it cannot be opened, and keeps it until it is killed. */
const [file = '', umask] = process.argv.slice(2);
if (umask !== undefined) process.umask(Number(umask));
const link = sqlite(file).connect();
const outcome = await link.renew('holder', '', 3_600_000).then(
  () => 'open',
  (error: Error) => error.message,
);
console.log(outcome);
if (outcome === 'open') setInterval(() => {}, 60_000);
