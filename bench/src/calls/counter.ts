import { type Profiler, Session } from 'node:inspector/promises';

/** Counts the calls of functions of this process, by V8's coverage. */
export interface Counter {
  /** Since the last call. */
  take(): Promise<readonly Profiler.ScriptCoverage[]>;
  stop(): void;
}

export async function startCounter(): Promise<Counter> {
  const inspector = new Session();
  inspector.connect();
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  return {
    take: async () => (await inspector.post('Profiler.takePreciseCoverage')).result,
    stop: () => inspector.disconnect(),
  };
}

/** The steps of an endpoint for messages that arrive and for calls of the application, by file and name. */
const STEPS = {
  apply: ['/protocol/src/endpoint/endpoint.ts', 'apply'],
  transmit: ['/protocol/src/endpoint/transmitter.ts', 'transmit'],
  pollTransmit: ['/protocol/src/session/session.ts', 'pollTransmit'],
  memory: ['/protocol/src/endpoint/memory-account.ts', 'update'],
} as const;
export type Step = keyof typeof STEPS;
export const STEP_NAMES = Object.keys(STEPS) as Step[];
export type Steps = Readonly<Record<Step, number>>;

export function stepsOf(scripts: readonly Profiler.ScriptCoverage[]): Steps {
  const count = ([file, name]: (typeof STEPS)[Step]) =>
    scripts
      .filter(({ url }) => url.endsWith(file))
      .flatMap(({ functions }) => functions)
      .filter(({ functionName }) => functionName === name)
      .reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0);
  return {
    apply: count(STEPS.apply),
    transmit: count(STEPS.transmit),
    pollTransmit: count(STEPS.pollTransmit),
    memory: count(STEPS.memory),
  };
}
