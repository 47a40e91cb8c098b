// The fuzzing thread: TypeScript and the platform are set up for each thread separately.
import { workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
if (workerData.platform === 'web') await import('../web-platform.mjs');
await import('./worker.ts');
