import type { CapabilityOptions } from '@parlance/protocol';
import type { Feature } from '../parts/part.js';

export type TensorsOptions = Pick<CapabilityOptions, 'avp' | 'transfers'>;

/** Tensors to and from clients. On by default, without a model. */
export const tensors = ({ avp, transfers }: TensorsOptions = {}): Feature => ({
  name: 'tensors',
  install: () => ({ core: { avp }, endpoint: { transfers } }),
});
