import { type CapabilityOptions, Extension } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';
import type { Feature } from '../features/feature.js';
import type { OwnHooks } from '../features/own-feature.js';

export type TensorsOptions = Pick<CapabilityOptions, 'avp' | 'transfers'>;

/**
 * Tensors to and from clients. On by default, without a model.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function tensors(options: TensorsOptions = {}): Feature {
  assertOptions(options, { avp: 'object', transfers: 'text' }, 'tensors');
  const { avp, transfers } = options;
  const extensions = [Extension.AVP];
  return {
    name: 'tensors',
    install: (): OwnHooks => ({ extensions, core: { avp }, endpoint: { transfers } }),
  };
}
