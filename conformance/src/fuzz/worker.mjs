// The thread that fuzzes: TypeScript is set up for each thread by itself, and so is its platform.
import { workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
if (workerData.platform === 'web') await import('../web-platform.mjs');
await import('./worker.ts');
