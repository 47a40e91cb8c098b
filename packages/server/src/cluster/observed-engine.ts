import type { Engine } from '../engine/engine.js';
import { measured } from '../engine/measured.js';
import { METER, type PartHost } from '../parts/part.js';

/** The same engine, whose calls the metrics count as soon as they are collected. */
export function observedEngine(engine: Engine, host: PartHost): Engine {
  return measured(engine, (call, outcome, seconds) =>
    host.use(METER)?.observer?.handleEngineCall(call, outcome, seconds),
  );
}
