import { ProtocolError } from '@parlance/protocol';
import type { Engine } from '../engine.js';
import { resolveSeal, type Seal, type SealOptions } from './keys.js';

const seals = new WeakMap<Engine, Seal>();

/**
 * The same engine, for a server that encrypts kept replies and records of sessions before the engine gets them: those
 * who can read it learn neither content nor principals, and those who can write it change nothing unnoticed. The same
 * at all nodes.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function sealed(engine: Engine, options: SealOptions): Engine {
  if (typeof engine !== 'object' || engine === null)
    throw new ProtocolError('invalid_option', 'sealed: an engine is expected, such as redis({ … })');
  const same = Object.create(engine) as Engine;
  seals.set(same, resolveSeal(options));
  return same;
}

/** With which a server encrypts what the engine gets; `undefined` if the engine can read it. */
export const sealOf = (engine: Engine | undefined): Seal | undefined => engine && seals.get(engine);
