import { describe, expect, it } from 'vitest';
import { ENGINE_KINDS } from './engines.js';
import { describeStep, stepsOf, USUAL_MIX } from './steps.js';

describe('the steps of a history', () => {
  it.each(Object.entries(ENGINE_KINDS))('have only what can happen with %s', (_name, { mix, nodes }) => {
    const steps = stepsOf(1, 600, { ...USUAL_MIX, ...mix }, nodes);
    const possible = Object.entries({ ...mix.nodes, ...mix.engine }).filter(([, weight]) => weight > 0);
    const failures = steps.filter((step) => step.do in { ...mix.nodes, ...mix.engine });
    expect(new Set(failures.map((step) => step.do))).toEqual(new Set(possible.map(([act]) => act)));
    for (const step of failures) if ('node' in step) expect(step.node).toBeLessThan(nodes);
  });

  it('follow from the seed', () => {
    const lines = (seed: number) => stepsOf(seed, 60).map(describeStep);
    expect(lines(1)).toEqual(lines(1));
    expect(lines(1)).not.toEqual(lines(2));
  });

  it('have all acts, in order, within their time', () => {
    const steps = [1, 2, 3, 4, 5].flatMap((seed) => {
      const times = stepsOf(seed, 60).map(({ at }) => at);
      expect(times).toEqual([...times].sort((one, other) => one - other));
      expect(times.at(-1)).toBeLessThan(60_000);
      return stepsOf(seed, 60);
    });
    const acts = [
      'ask',
      'say',
      'tell',
      'follow',
      'device',
      'reload',
      'cut',
      'freeze',
      'kill',
      'drain',
      'pause',
    ];
    const all = [...acts, 'part', 'slow', 'restart', 'fill', 'silence'];
    expect(new Set(steps.map((step) => step.do))).toEqual(new Set(all));
  });
});
