import type { Engine } from '../engine/engine.js';
import { measured } from '../engine/measured.js';
import { type FeatureHost, METER } from '../server/features/feature.js';

/** The same engine, whose calls the metrics count as soon as they are collected. */
export function observedEngine(engine: Engine, host: FeatureHost): Engine {
  return measured(engine, () => {
    const observer = host.use(METER)?.observer;
    return observer && ((...call) => observer.handleEngineCall(...call));
  });
}
