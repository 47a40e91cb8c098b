import { ASKED } from '../../e2e/src/engine/redis-commands.js';
import { table } from './markdown.js';

/** The commands of a durable session to Redis, from the data of a test. */
export function redisTable(): ReadonlyMap<string, string> {
  const rows = Object.entries(ASKED).map(([step, { commands, bytes }]) => [step, `${commands}`, `${bytes}`]);
  return new Map([['redis commands', table(['', 'commands', 'bytes, about'], rows)]]);
}
