import { MAX_EARLY_HELLO, ProtocolError, Subprotocol } from '@parlance/protocol/client';
import { describe, expect, it, vi } from 'vitest';
import { type WebSocketConstructor, webSockets } from './web-socket.js';

class FakeSocket {
  static offers: readonly string[] = [];
  binaryType = '';
  readonly #listeners = new Map<string, (event: object) => void>();
  constructor(_url: string, protocols: string[]) {
    FakeSocket.offers = protocols;
    queueMicrotask(() => this.#listeners.get('open')?.({ type: 'open' }));
  }
  get protocol(): string {
    return FakeSocket.offers.at(1) ?? 'm2m.v1';
  }
  send(): void {}
  close(): void {}
  addEventListener(type: string, listener: (event: object) => void): void {
    this.#listeners.set(type, listener);
  }
}

/** The subprotocols that a client with this `hello` offers, and whether they have said it. */
async function offered(
  hello: Uint8Array | string | undefined,
  WebSocket: WebSocketConstructor = FakeSocket as unknown as WebSocketConstructor,
): Promise<[offers: readonly string[], isSaid: boolean]> {
  const isSaid = await new Promise<boolean>((resolve) =>
    webSockets({ subprotocol: Subprotocol.BINARY, WebSocket }).open(new URL('ws://test'), () => hello, {
      onOpen: resolve,
      onMessage() {},
      onWritable() {},
      onClose() {},
    }),
  );
  return [FakeSocket.offers, isSaid];
}

describe('HELLO for an upgrade request', () => {
  it('is offered in base64url behind a name for "read"', async () => {
    const hello = Uint8Array.of(0xfb, 0xff, 0xfe, 0x81);
    expect(await offered(hello)).toEqual([['m2m.v1', 'm2m.v1.hello', 'hello.-__-gQ'], true]);
  });

  it('is offered up to 3,072 bytes, and not with one more', async () => {
    const [offers] = await offered(new Uint8Array(MAX_EARLY_HELLO));
    expect([offers.length, offers[2]?.length]).toEqual([3, 'hello.'.length + 4_096]);
    expect(await offered(new Uint8Array(MAX_EARLY_HELLO + 1))).toEqual([['m2m.v1'], false]);
  });

  it('is not offered if there is none, or in JSON', async () => {
    for (const hello of [undefined, '{"type":"HELLO"}'])
      expect(await offered(hello)).toEqual([['m2m.v1'], false]);
  });

  it('is not offered in a runtime without btoa', async () => {
    vi.stubGlobal('btoa', undefined);
    try {
      expect(await offered(Uint8Array.of(1))).toEqual([['m2m.v1'], false]);
    } finally {
      vi.unstubAllGlobals();
    }
  });

  it('is not even made for a class that does not tell what was selected', () => {
    const Bare = (() => {}) as unknown as WebSocketConstructor;
    const asked = () => {
      throw new Error('it was asked');
    };
    const open = () =>
      webSockets({ subprotocol: Subprotocol.BINARY, WebSocket: Bare }).open(
        new URL('ws://test'),
        asked,
        {} as never,
      );
    expect(open).toThrow(ProtocolError);
  });
});
