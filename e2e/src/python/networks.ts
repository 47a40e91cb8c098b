import { type OnUpgrade, withoutUpgrades } from '../proxies/without-upgrades.js';

/** Networks in front of a server, for the tests of `python/`: prints their URLs as JSON, by what they do to an upgrade. */

const target = new URL(process.argv[2] ?? '');
const names: OnUpgrade[] = ['refuse', 'hold', 'drop the answers to', 'hold the frames behind'];
const urls: Record<string, string> = {};
for (const name of names) {
  const { port } = await withoutUpgrades(Number(target.port), name);
  urls[name] = `ws://127.0.0.1:${port}${target.pathname}`;
}
console.log(JSON.stringify(urls));
