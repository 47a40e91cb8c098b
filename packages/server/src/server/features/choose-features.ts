import { ProtocolError } from '@parlance/protocol';
import type { Feature } from './feature.js';

/** A feature that is not there, in place of a default of its name. */
class Without implements Feature {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
  install(): never {
    throw new ProtocolError('invalid_option', `features: there is no default ${this.name} to do without`);
  }
}

/**
 * Removes a feature that a server has by default.
 *
 * @param name such as `groups`.
 */
export function without(name: string): Feature {
  return new Without(name);
}

/**
 * The features of a server: its defaults, each replaced or removed by the one of the same name that the application has given,
 * and what the application has added.
 *
 * @param given by the application, which may be anything.
 * @throws {ProtocolError} `invalid_option`.
 */
export function chooseFeatures(
  defaults: readonly Feature[],
  given: readonly Feature[] = [],
): readonly Feature[] {
  const own = new Map<string, Feature>();
  for (const feature of given) {
    if (!isFeature(feature))
      throw new ProtocolError('invalid_option', 'features: a list of features is expected, such as groups()');
    if (own.has(feature.name))
      throw new ProtocolError('invalid_option', `features: ${feature.name} is there twice`);
    own.set(feature.name, feature);
  }
  const kept = defaults.map((feature) => own.get(feature.name) ?? feature);
  const known = new Set(defaults.map(({ name }) => name));
  const added = [...own.values()].filter(({ name }) => !known.has(name));
  return [...kept.filter((feature) => !(feature instanceof Without)), ...added];
}

export function isRemoved(name: string): ProtocolError {
  return new ProtocolError('unsupported', `the server was created without the feature ${name}`);
}

function isFeature(value: unknown): value is Feature {
  if (typeof value !== 'object' || value === null) return false;
  const { name, provides = [], after = [], install } = value as Partial<Feature>;
  const isNamed = typeof name === 'string' && name !== '';
  return isNamed && typeof install === 'function' && [provides, after].every(Array.isArray);
}
