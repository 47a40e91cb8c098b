import { CloseCode } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import type { Refusal } from '../admission/admission.js';
import type { Quotas } from '../admission/quotas.js';
import { type ClusterHost, ClusterNode } from './node.js';

interface Parts extends Omit<ClusterHost, 'admits' | 'admitLed' | 'releaseLed'> {
  readonly quotas: Pick<Quotas, 'admitLed' | 'release'>;
  /** Refuses every client while the server drains or closes. */
  readonly refusal: () => Refusal | undefined;
}

/** Whether a balancer should send clients here: one that knows of another node that reaches the engine should not. */
export function isReadyIn(node: Pick<ClusterNode, 'isMember' | 'isCutOff'> | undefined): boolean {
  return joiningRefusal(node) === undefined && node?.isCutOff !== true;
}

/** The refusal of new sessions while other nodes do not know where they would be. */
export function joiningRefusal(node: Pick<ClusterNode, 'isMember'> | undefined): Refusal | undefined {
  return node === undefined || node.isMember ? undefined : JOINING;
}

const JOINING: Refusal = {
  code: 'SERVER_BUSY',
  message: 'the server has not joined its cluster yet',
  closeCode: CloseCode.DRAINING,
  retryAfterMs: 1_000,
};

/** Makes a server one node of a cluster; `undefined` if it is on its own. */
export function joinCluster({ quotas, refusal, ...parts }: Parts): ClusterNode | undefined {
  const { node } = parts.options;
  if (node === undefined) return undefined;
  const admitLed = (address: string) => refusal() ?? quotas.admitLed(address, systemClock.now());
  const admits = () => refusal() === undefined;
  const releaseLed = (address: string) => quotas.release(address, undefined);
  return new ClusterNode({ ...parts, admits, admitLed, releaseLed }, node);
}
