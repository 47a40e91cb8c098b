import type { SecureContextOptions, TlsOptions } from 'node:tls';
import { ProtocolError } from '@parlance/protocol';
import { assertOptions, type OptionKinds } from '@parlance/protocol/internal';
import type { Engine } from '../engine/engine.js';
import { isLoopback } from '../transport/http/addresses.js';

/** How the other nodes of a cluster reach this one. */
export interface ClusterOptions {
  /** The host and the port on which this node listens for other nodes. @default a free port of 127.0.0.1 */
  readonly listen?: { readonly host?: string | undefined; readonly port?: number | undefined } | undefined;
  /**
   * The address under which other nodes reach that port, such as `wss://10.0.0.7:7946`. @default where it listens
   */
  readonly advertise?: string | undefined;
  /**
   * Signs the tickets with which nodes vouch for clients: at least 16 bytes, the same at all nodes. Of a list, the first
   * one signs and all verify, so that it can be replaced node by node. Required, except with `memoryCluster()`.
   */
  readonly secret?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined;
  /**
   * Certificate and key of the port, and the authorities (`ca`) that nodes trust. With `requestCert`, nodes also prove
   * themselves by their certificates. @default the port speaks plain `ws:`, which needs loopback or `insecure`
   */
  readonly tls?: TlsOptions | undefined;
  /**
   * Allows `ws:` beyond loopback: for a network that is encrypted itself, as its readers read what clients say.
   * @default false
   */
  readonly insecure?: boolean | undefined;
}

export interface ResolvedNodeOptions {
  readonly engine: Engine;
  readonly host: string;
  readonly port: number;
  readonly advertise: string | undefined;
  readonly secrets: readonly Uint8Array[];
  readonly tls: (TlsOptions & SecureContextOptions) | undefined;
  readonly isInsecure: boolean;
}

/** Bytes. */
const MIN_SECRET = 16;

const KINDS: OptionKinds<ClusterOptions> = {
  listen: 'object',
  advertise: 'text',
  secret: 'any',
  tls: 'object',
  insecure: 'flag',
};

/** @throws {ProtocolError} `invalid_option`. */
export function assertEngine(engine: Engine): Engine {
  if (typeof engine.connect === 'function') return engine;
  throw new ProtocolError('invalid_option', 'engine must be an engine, such as redis(…) or sqlite(…)');
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveClusterOptions(
  given: Engine | undefined,
  node: ClusterOptions | undefined,
): ResolvedNodeOptions {
  if (given === undefined)
    throw new ProtocolError('invalid_option', 'cluster: the option engine says where nodes find each other');
  const engine = assertEngine(given);
  assertOptions(node, KINDS, 'cluster');
  const { listen, advertise, secret = engine.secret, tls, insecure: isInsecure = false } = node ?? {};
  assertOptions(listen, { host: 'text', port: 'number' }, 'cluster.listen');
  const { host = '127.0.0.1', port = 0 } = listen ?? {};
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) {
    const range = `a whole number from 0 to 65535, not ${port}`;
    throw new ProtocolError('invalid_option', `cluster.listen.port must be ${range}`);
  }
  if (advertise !== undefined) assertAddress(advertise, isInsecure);
  else assertReachable(host, tls !== undefined || isInsecure);
  return { engine, host, port, advertise, secrets: secretsOf(secret), tls, isInsecure };
}

/** The default address is where the port listens. @throws {ProtocolError} `invalid_option`. */
function assertReachable(host: string, mayLeave: boolean): void {
  if (host === '0.0.0.0' || host === '::' || host === '') {
    const message = 'cluster.advertise is required: other nodes cannot connect to "every address"';
    throw new ProtocolError('invalid_option', message);
  }
  if (!mayLeave && host !== 'localhost' && !isLoopback(host)) throw plainAddress(host);
}

/** @throws {ProtocolError} `invalid_option`. */
function assertAddress(address: string, isInsecure: boolean): void {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isOrigin = url !== undefined && url.pathname === '/' && url.search === '' && url.username === '';
  if (!isOrigin || (url.protocol !== 'ws:' && url.protocol !== 'wss:')) {
    const message = 'cluster.advertise must be an address such as wss://10.0.0.7:7946';
    throw new ProtocolError('invalid_option', message);
  }
  if (!isSafe(address, isInsecure)) throw plainAddress(address);
}

function plainAddress(where: string): ProtocolError {
  return new ProtocolError(
    'invalid_option',
    `cluster: ${where.slice(0, 100)} is not on this machine, so the port needs wss: set cluster.tls, or cluster.insecure in a network that is encrypted itself`,
  );
}

/** Whether a node may be told at `address` what clients say and who they are. */
export function isSafe(address: string, isInsecure: boolean): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, hostname } = new URL(address);
  if (protocol === 'wss:') return true;
  const host = hostname.replace(/^\[|\]$/g, '');
  return protocol === 'ws:' && (isInsecure || host === 'localhost' || isLoopback(host));
}

function secretsOf(given: ClusterOptions['secret']): readonly Uint8Array[] {
  const list = Array.isArray(given) ? (given as readonly unknown[]) : [given];
  if (given === undefined || list.length === 0) {
    const message = 'cluster.secret is required: at least 16 bytes, the same at all nodes';
    throw new ProtocolError('invalid_option', message);
  }
  return list.map((each) => {
    const bytes = typeof each === 'string' ? Buffer.from(each) : each;
    if (bytes instanceof Uint8Array && bytes.length >= MIN_SECRET) return bytes;
    const message = `cluster.secret must be a string or bytes, at least ${MIN_SECRET} of them, or a list of such`;
    throw new ProtocolError('invalid_option', message);
  });
}
