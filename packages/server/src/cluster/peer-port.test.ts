import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_TIMERS, Subprotocol } from '@parlance/protocol';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { Transport } from '../transport/transport.js';
import { createWebSocketAdapter } from '../transport/websocket/adapter.js';
import { dial } from '../transport/websocket/ws.js';
import { MAX_STRANGERS, PEER_PATH, PeerPort, type PeerPortOptions } from './peer-port.js';
import { type ClientOfTicket, digestOf, type Ticket, Tickets } from './ticket.js';

const SECRET = Buffer.from('a secret of 20 bytes');
const OPENSSL = '/usr/bin/openssl';
const bounds = { maxPayload: 1_000_000, maxFragments: 0, closeTimeoutMs: 1_000 };

let port: PeerPort;
let owner: Tickets;
let passed: Ticket[];
let wires: Transport[];
let logged: Readonly<Record<string, unknown>>[];
const sockets: Socket[] = [];

async function open(change: Partial<PeerPortOptions> = {}): Promise<void> {
  const log = (fields: Readonly<Record<string, unknown>>) => logged.push(fields);
  port = await PeerPort.open({
    host: '127.0.0.1',
    port: 0,
    tls: undefined,
    timers: DEFAULT_TIMERS,
    logger: { debug: log, info: log, warn: log, error: log },
    adapter: createWebSocketAdapter(bounds),
    accept: (ticket) => owner.accept(ticket),
    hasSession: (sessionId) => sessionId === CLIENT.sessionId,
    onWire: (wire, _request, ticket) => {
      passed.push(ticket);
      wires.push(wire);
    },
    ...change,
  });
}

beforeEach(() => {
  owner = new Tickets({ secrets: [SECRET], incarnation: 'ownerA', now: Date.now });
  passed = [];
  wires = [];
  logged = [];
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const wire of wires) wire.terminate();
  await port.close();
});

const CLIENT: ClientOfTicket = {
  sessionId: 'sess_ownerA00000000000000',
  helloDigest: digestOf('HELLO'),
  subprotocol: Subprotocol.BINARY,
  identity: { principal: 'alice' },
  ip: '203.0.113.7',
  headers: {},
  isForwarded: false,
};
const source = new Tickets({ secrets: [SECRET], incarnation: 'source', now: Date.now });

interface Attempt {
  readonly authorization?: string | undefined;
  readonly path?: string;
  readonly subprotocol?: string;
}
const ticketOf = (client: ClientOfTicket = CLIENT, target = 'ownerA') =>
  `Parlance ${source.issue(target, client)}`;

/** @returns the status of HTTP; 101 for a connection that was accepted. */
async function attempt({ authorization, path = PEER_PATH, subprotocol }: Attempt): Promise<number> {
  const headers = authorization === undefined ? {} : { authorization };
  const socket = new WebSocket(`${port.address}${path}`, [subprotocol ?? Subprotocol.BINARY], {
    headers,
  });
  return await new Promise((resolve) => {
    socket.once('open', () => resolve(101));
    socket.once('unexpected-response', (request, { statusCode }) => {
      request.destroy();
      resolve(statusCode as number);
    });
    socket.on('error', () => {});
  });
}

describe('the port for other nodes', () => {
  beforeEach(() => open());

  it('accepts a ticket, and passes on what it says', async () => {
    expect(await attempt({ authorization: ticketOf() })).toBe(101);
    expect(passed).toEqual([{ source: 'source', ...CLIENT }]);
    expect(port.strangers).toBe(0);
  });

  it.each<[string, () => Attempt, number]>([
    ['no ticket', () => ({}), 401],
    ['garbage for one', () => ({ authorization: 'Parlance x.y' }), 401],
    ['another scheme', () => ({ authorization: ticketOf().replace('Parlance', 'Bearer') }), 401],
    ['more behind it', () => ({ authorization: `${ticketOf()} x` }), 401],
    ['one that is cut off', () => ({ authorization: ticketOf().slice(0, -2) }), 401],
    ['one for another node', () => ({ authorization: ticketOf(CLIENT, 'ownerB') }), 410],
    [
      'one for a session that is gone',
      () => ({ authorization: ticketOf({ ...CLIENT, sessionId: 'x' }) }),
      410,
    ],
    ['one for another subprotocol', () => ({ authorization: ticketOf(), subprotocol: 'm2m.v1.json' }), 401],
    ['another path', () => ({ authorization: ticketOf(), path: '/session' }), 404],
    ['an unknown subprotocol', () => ({ authorization: ticketOf(), subprotocol: 'x' }), 400],
  ])('refuses a connection with %s', async (_what, make, status) => {
    expect(await attempt(make())).toBe(status);
    expect(passed).toEqual([]);
  });

  it('accepts a ticket once', async () => {
    const authorization = ticketOf();
    expect(await attempt({ authorization })).toBe(101);
    expect(await attempt({ authorization })).toBe(401);
    expect(passed).toHaveLength(1);
  });

  it('says 503 while it cannot remember more tickets', async () => {
    owner = new Tickets({ secrets: [SECRET], incarnation: 'ownerA', now: Date.now, maxRemembered: 0 });
    expect(await attempt({ authorization: ticketOf() })).toBe(503);
  });

  it('takes a ticket with headers as long as Node accepts', async () => {
    const headers = { cookie: '"'.repeat(15_000) };
    expect(await attempt({ authorization: ticketOf({ ...CLIENT, headers }) })).toBe(101);
    expect(passed[0]?.headers).toEqual(headers);
  });

  it('logs each kind of refusal once for an address, however many there are', async () => {
    for (let i = 0; i < 5; i++) {
      await attempt({});
      await attempt({ authorization: ticketOf(CLIENT, 'ownerB') });
    }
    expect(logged).toMatchObject([
      { event: 'peer.refused', reason: 'wrong' },
      { event: 'peer.refused', reason: 'other_node' },
    ]);
  });

  it('answers no plain request', async () => {
    const response = await fetch(`${port.address.replace('ws:', 'http:')}/`);
    expect(response.status).toBe(426);
  });

  it('drops a connection that does not speak HTTP', async () => {
    const socket = await openTcp();
    socket.write('\0\0garbage\r\n\r\n');
    socket.resume();
    await once(socket, 'close');
    await expect.poll(() => port.strangers).toBe(0);
  });

  it(`keeps ${MAX_STRANGERS} connections without a ticket, and closes the oldest for one more`, async () => {
    const strangers = [];
    for (let i = 0; i < MAX_STRANGERS; i++) strangers.push(await openTcp());
    await expect.poll(() => port.strangers).toBe(MAX_STRANGERS);
    expect(strangers.filter(({ destroyed }) => destroyed)).toEqual([]);
    const [oldest] = strangers;
    oldest?.resume();
    const closed = once(oldest as Socket, 'close');
    await openTcp();
    await closed;
    expect(port.strangers).toBe(MAX_STRANGERS);
    // A node shows its ticket at once.
    expect(await attempt({ authorization: ticketOf() })).toBe(101);
  });

  it('closes with connections that have shown nothing', async () => {
    await openTcp();
    await expect.poll(() => port.strangers).toBe(1);
    await port.close();
    await open();
  });

  it('says why it cannot be opened', async () => {
    const taken = Number(new URL(port.address).port);
    const other = port;
    await expect(open({ port: taken })).rejects.toMatchObject({ code: 'connection_failed' });
    port = other;
  });
});

it('closes a connection that sends no request in time', async () => {
  await open({ timers: { ...DEFAULT_TIMERS, helloTimeoutMs: 50 } });
  const socket = await openTcp();
  socket.resume();
  await once(socket, 'close');
});

describe.skipIf(!existsSync(OPENSSL))('with TLS', () => {
  let folder: string;
  let tls: { readonly key: Buffer; readonly cert: Buffer };
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'parlance-tls-'));
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    const names = ['-subj', '/CN=node', '-addext', 'subjectAltName=IP:127.0.0.1'];
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-x509'];
    execFileSync(OPENSSL, ['req', ...kind, '-keyout', key, '-out', cert, ...names], { stdio: 'ignore' });
    tls = { key: readFileSync(key), cert: readFileSync(cert) };
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const dialWith = (own: object | undefined) =>
    new Promise<string>((resolve) => {
      const headers = { authorization: ticketOf() };
      dial(
        `${port.address}${PEER_PATH}`,
        { ...bounds, subprotocol: Subprotocol.BINARY, headers, tls: own },
        (wire) => {
          wires.push(wire);
          resolve('open');
        },
        ({ code, status }) => resolve(String(code ?? status)),
      );
    });

  it('a node that trusts the authority is connected, and counts as no stranger', async () => {
    await open({ tls });
    expect(port.address).toMatch(/^wss:/);
    expect(await dialWith({ ca: tls.cert })).toBe('open');
    expect(passed).toHaveLength(1);
    expect(port.strangers).toBe(0);
    await openTcp();
    await expect.poll(() => port.strangers).toBe(1);
  });

  it('a node that does not trust it sends no ticket', async () => {
    await open({ tls });
    expect(await dialWith({})).toBe('DEPTH_ZERO_SELF_SIGNED_CERT');
    expect(passed).toEqual([]);
  });

  it('with requestCert, a node without a certificate is not served', async () => {
    await open({ tls: { ...tls, ca: tls.cert, requestCert: true, rejectUnauthorized: true } });
    expect(await dialWith({ ca: tls.cert })).not.toBe('open');
    expect(await dialWith({ ca: tls.cert, ...tls })).toBe('open');
  });

  it('a certificate that is none is an invalid option', async () => {
    await open();
    const other = port;
    await expect(open({ tls: { key: 'no key', cert: 'no certificate' } })).rejects.toMatchObject({
      code: 'invalid_option',
    });
    port = other;
  });
});

async function openTcp(): Promise<Socket> {
  const socket = connectTcp(Number(new URL(port.address).port), '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}
