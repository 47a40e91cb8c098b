import type { Engine } from '../engine/engine.js';
import { measured } from '../engine/measured.js';
import { METER, type OwnHost } from '../server/features/own-feature.js';

/** The same engine, whose calls the metrics count as soon as they are collected. */
export function observedEngine(engine: Engine, host: OwnHost): Engine {
  return measured(engine, () => {
    const observer = host.use(METER)?.observer;
    return observer && ((...call) => observer.handleEngineCall(...call));
  });
}
