import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv4, type Socket } from 'node:net';
import { ProtocolError } from '@parlance/protocol';

/** The address that a connection comes from, and the key under which its limits are counted. */

/** Addresses whose `X-Forwarded-For` is trusted. */
export interface TrustedProxies {
  readonly isEmpty: boolean;
  has(address: string): boolean;
}

/** Entries of `X-Forwarded-For` that are read. */
const MAX_HOPS = 32;

/**
 * @param entries addresses (`10.0.0.1`) and networks (`10.0.0.0/8`, `fd00::/8`).
 * @throws {ProtocolError} `invalid_option`.
 */
export function createTrustedProxies(entries: readonly string[]): TrustedProxies {
  const list = new BlockList();
  for (const entry of entries) addEntry(list, entry);
  return {
    isEmpty: entries.length === 0,
    has: (address) => list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6'),
  };
}

function addEntry(list: BlockList, entry: string): void {
  const [address = '', bits, ...rest] = entry.split('/');
  const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
  const isPrefix =
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 'ipv4' ? 32 : 128));
  if (isIP(address) === 0 || !isPrefix || rest.length > 0) {
    throw new ProtocolError(
      'invalid_option',
      `trustedProxies: "${entry}" is not an address or network; write it as 10.0.0.1 or 10.0.0.0/8`,
    );
  }
  if (bits === undefined) list.addAddress(address, family);
  else list.addSubnet(address, Number(bits), family);
}

/**
 * The address of the client: that of the connection, or the rightmost one in `X-Forwarded-For` that is not a
 * trusted proxy. Entries further left are not trustworthy.
 */
export function clientAddress({ socket, headers }: IncomingMessage, proxies: TrustedProxies): string {
  let address = plainAddress(socket.remoteAddress ?? '');
  if (proxies.isEmpty) return address;
  const hops = forwardedFor(headers['x-forwarded-for']);
  while (address !== '' && proxies.has(address)) {
    const next = hops.pop();
    const hop = next === undefined ? undefined : hopAddress(next);
    if (hop === undefined) break;
    address = hop;
  }
  return address;
}

/** Whether a connection comes from one of the proxies. */
export function isTrustedProxy(
  { remoteAddress }: Pick<Socket, 'remoteAddress'>,
  proxies: TrustedProxies,
): boolean {
  const address = plainAddress(remoteAddress ?? '');
  return address !== '' && proxies.has(address);
}

/** The key of {@link addressKey} for a connection whose request has not arrived yet. */
export function socketKey({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string {
  return addressKey(plainAddress(remoteAddress ?? ''));
}

/** Whether a header states that a proxy has forwarded the request. */
export function isForwarded({ headers }: IncomingMessage): boolean {
  return headers['x-forwarded-for'] !== undefined || headers['forwarded'] !== undefined;
}

export function isLoopback(address: string | undefined): boolean {
  const plain = plainAddress(address ?? '');
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'));
}

/**
 * The key under which the limits of an address are counted: an IPv4 address, or the /64 of an IPv6 one, as a
 * subscriber gets a whole /64 and can use any address in it.
 */
export function addressKey(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail = ''] = address.split('::', 2);
  const before = head === '' ? [] : head.split(':');
  const after = tail === '' ? [] : tail.split(':');
  const zeros = address.includes('::') ? Array(Math.max(0, 8 - before.length - after.length)).fill('0') : [];
  const groups = [...before, ...zeros, ...after].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}

/** The shares of the process's memory that a session uses: of its address, and of its principal if that is counted. */
export function memoryKeys(ip: string, principal: string | undefined): readonly string[] {
  const address = `address ${addressKey(ip)}`;
  return principal === undefined ? [address] : [address, `principal ${principal}`];
}

/** The address without its zone, which is local to this machine; IPv4 as such, even if a dual-stack socket maps it. */
function plainAddress(address: string): string {
  const [plain = ''] = address.split('%', 1);
  const mapped = plain.toLowerCase().startsWith('::ffff:') ? plain.slice(7) : '';
  return isIPv4(mapped) ? mapped : plain;
}

function forwardedFor(header: string | string[] | undefined): string[] {
  const text = Array.isArray(header) ? header.join(',') : (header ?? '');
  return text.split(',').slice(-MAX_HOPS);
}

/** The address in an entry, which may have a port. */
function hopAddress(entry: string): string | undefined {
  const text = entry.trim();
  const bracketed = text.startsWith('[') ? text.slice(1, text.indexOf(']')) : text;
  const candidates = [bracketed, bracketed.slice(0, bracketed.lastIndexOf(':'))];
  const address = candidates.find((candidate) => isIP(candidate) !== 0);
  return address === undefined ? undefined : plainAddress(address);
}
