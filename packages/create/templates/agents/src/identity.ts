import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Identity } from '@parlance/server';

/** The token of an agent: its name, and a proof that its maker knows the secret. Replace it by your own accounts. */
export const tokenFor = (name: string, secret: string): string => `${name}.${proofOf(name, secret)}`;

/** @returns the agent whose token it is; `null` for any other token. */
export function identify(token: string, secret: string): Identity | null {
  const [name = '', proof = ''] = token.split('.');
  const [given, right] = [Buffer.from(proof), Buffer.from(proofOf(name, secret))];
  const isRight = given.length === right.length && timingSafeEqual(given, right);
  // Agents of one principal see each other.
  return isRight ? { principal: 'team', agentId: name } : null;
}

const proofOf = (name: string, secret: string): string =>
  createHmac('sha256', secret).update(name).digest('base64url');
