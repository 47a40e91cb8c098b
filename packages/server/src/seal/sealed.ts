import { ProtocolError } from '@parlance/protocol';
import type { Backplane } from '../backplane/backplane.js';
import { resolveSeal, type Seal, type SealOptions } from './keys.js';

const seals = new WeakMap<Backplane, Seal>();

/**
 * The same engine, for a server that encrypts durable sessions and kept replies before the engine gets them: those who can read
 * it learn neither content nor principals, and those who can write it change nothing unnoticed. The same at all nodes.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function sealed(engine: Backplane, options: SealOptions): Backplane {
  if (typeof engine !== 'object' || engine === null)
    throw new ProtocolError('invalid_option', 'sealed: an engine is expected, such as redis({ … })');
  const same = Object.create(engine) as Backplane;
  seals.set(same, resolveSeal(options));
  return same;
}

/** With which a server encrypts what the engine gets; `undefined` if the engine can read it. */
export const sealOf = (engine: Backplane | undefined): Seal | undefined => engine && seals.get(engine);
