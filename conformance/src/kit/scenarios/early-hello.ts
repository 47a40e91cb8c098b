import { must, mustEqual, NotApplicable } from '../deviation.js';
import { BINARY, OFFER, READ } from '../door.js';
import { controlOn, envelope, type Kit, saidOn } from '../kit.js';
import { helloOf } from '../offers.js';
import type { Scenario } from '../scenario.js';
import type { Wire } from '../wire.js';

/** A server that gets HELLO in an upgrade request. */

/** A connection of a client that says HELLO in its upgrade request. */
async function asked(kit: Kit, ...hellos: readonly Uint8Array[]): Promise<Wire> {
  const offers = hellos.map((hello) => OFFER + Buffer.from(hello).toString('base64url'));
  const wire = await kit.connect({ subprotocols: [BINARY, READ, ...offers] });
  const { protocol } = wire.socket;
  must(protocol === BINARY || protocol === READ, `the server selects ${JSON.stringify(protocol)}`);
  return wire;
}

/** The same, of a server that reads HELLO there. */
async function askedAndRead(kit: Kit, hello: Uint8Array): Promise<Wire> {
  const wire = await asked(kit, hello);
  if (wire.socket.protocol === READ) return wire;
  throw new NotApplicable('the server does not read HELLO in upgrade requests');
}

export const EARLY_HELLO: readonly Scenario[] = [
  {
    name: 'handshake/in-the-request',
    section: '§1 HELLO in the request',
    tests: 'server',
    title: 'A server either reads HELLO in the upgrade request and says so, or gets it as a frame.',
    async run(kit) {
      const hello = envelope('HELLO', null, helloOf({}));
      const wire = await asked(kit, hello);
      if (wire.socket.protocol === BINARY) wire.send(hello);
      const { fields } = await controlOn(wire, 'ACCEPT');
      wire.send(envelope('PING', fields['session_id'] as string, {}));
      await saidOn(wire, 'PONG');
    },
  },
  {
    name: 'handshake/in-the-request-twice',
    section: '§1 HELLO in the request',
    tests: 'server',
    title:
      'A server reads none of several HELLOs in one request, and none that is not base64url in its only spelling.',
    async run(kit) {
      const hello = envelope('HELLO', null, helloOf({}));
      const two = await asked(kit, hello, envelope('HELLO', null, helloOf({ algorithms: ['FOO'] })));
      mustEqual(two.socket.protocol, BINARY, 'the subprotocol if there are two');
      two.send(hello);
      await controlOn(two, 'ACCEPT');
      const wire = await kit.connect({ subprotocols: [BINARY, READ, `${OFFER}AB`] });
      mustEqual(wire.socket.protocol, BINARY, 'the subprotocol if bits are left over');
    },
  },
  {
    name: 'handshake/in-the-request-too-large',
    section: '§1 HELLO in the request',
    tests: 'server',
    title: 'A server does not read a HELLO of more than 3,072 bytes in a request.',
    async run(kit) {
      const wire = await asked(kit, new Uint8Array(3_073).fill(0x80)).catch((error: Error) => {
        // Clients continue without, as they do if a proxy refuses the request.
        if (!/response: 4(00|31)$/.test(error.message)) throw error;
        throw new NotApplicable('the server refuses a header of this length');
      });
      mustEqual(wire.socket.protocol, BINARY, 'the subprotocol');
    },
  },
  {
    name: 'handshake/in-the-request-and-behind-it',
    section: '§1 HELLO in the request',
    tests: 'server',
    title: 'After a HELLO in the request, one in a frame ends the session with 4400.',
    async run(kit) {
      const hello = envelope('HELLO', null, helloOf({}));
      const wire = await askedAndRead(kit, hello);
      await controlOn(wire, 'ACCEPT');
      wire.send(hello);
      await wire.end([4400], 'a second HELLO');
    },
  },
  {
    name: 'handshake/in-the-request-malformed',
    section: '§1 HELLO in the request',
    tests: 'server',
    title: 'What a server has read in a request, and is no HELLO, ends the connection with 4400.',
    async run(kit) {
      const wire = await askedAndRead(kit, envelope('PING', null, {}));
      await wire.end([4400], 'PING in place of HELLO');
    },
  },
];
