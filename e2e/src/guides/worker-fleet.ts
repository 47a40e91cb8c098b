import type { Running } from '../../../scripts/pasted.js';
import { freePort } from '../kit/cli-process.js';
import type { Guide } from './guide.js';

const JOBS = 60;
const NAMES = ['worker-1', 'worker-2', 'worker-3'];

export const workerFleet: Guide = async ({ pasted, folder }) => {
  const port = await freePort();
  const startBoss = () => pasted.start('node boss.mjs', { folder, env: { PORT: port } });
  const startWorker = (name: string) =>
    pasted.start('node worker.mjs', { folder, env: { BOSS: `ws://127.0.0.1:${port}`, NAME: name } });

  const bosses = [startBoss()];
  const workers = new Map(NAMES.map((name) => [name, startWorker(name)]));
  let boss = bosses[0] as Running;
  for (const name of NAMES) {
    await boss.printed('recorded job');
    await workers.get(name)?.kill('SIGKILL');
    workers.set(name, startWorker(name));
    await boss.kill('SIGKILL');
    boss = startBoss();
    bosses.push(boss);
  }
  await boss.printed(`${JOBS} of ${JOBS} jobs are done`);
  for (const worker of workers.values())
    if ((await worker.ended) !== 0) throw worker.failure('has not ended by itself');
  await boss.kill();

  const recorded = bosses.flatMap((each) => each.text().match(/(?<=recorded job )\d+/g) ?? []);
  // A boss that is killed may have recorded one job that it has not printed.
  if (new Set(recorded).size !== recorded.length || recorded.length < JOBS - NAMES.length)
    throw new Error(`recorded: ${recorded.join(', ')}`);
};
