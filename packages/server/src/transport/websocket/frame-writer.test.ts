import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameWriter } from './frame-writer.js';

/** A socket that takes everything at once, or nothing until `release`. */
class FakeSocket extends Duplex {
  readonly taken: Buffer[] = [];
  writes = 0;
  isHeld = false;
  #release: (() => void)[] = [];

  override _read(): void {}
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#take([chunk], done);
  }
  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.#take(
      chunks.map(({ chunk }) => chunk),
      done,
    );
  }

  /** A held socket reads its data only now, like a kernel whose buffers were full. */
  release(): void {
    this.isHeld = false;
    for (const task of this.#release.splice(0)) task();
  }

  #take(chunks: Buffer[], done: () => void): void {
    this.writes++;
    const take = () => {
      for (const chunk of chunks) this.taken.push(Buffer.from(chunk));
      done();
    };
    if (this.isHeld) this.#release.push(take);
    else take();
  }

  /** Payloads of the WebSocket frames that were written, parsed according to RFC 6455. */
  frames(): { opcode: number; payload: Buffer }[] {
    const bytes = Buffer.concat(this.taken);
    const frames: { opcode: number; payload: Buffer }[] = [];
    for (let at = 0; at < bytes.length; ) {
      const opcode = bytes.readUInt8(at) & 0x0f;
      expect(bytes.readUInt8(at) & 0xf0).toBe(0x80);
      let length = bytes.readUInt8(at + 1);
      at += 2;
      if (length === 126) {
        length = bytes.readUInt16BE(at);
        at += 2;
      } else if (length === 127) {
        length = Number(bytes.readBigUInt64BE(at));
        at += 8;
      }
      frames.push({ opcode, payload: bytes.subarray(at, at + length) });
      at += length;
    }
    return frames;
  }
}

const filled = (length: number, seed: number) => Buffer.alloc(length, (seed % 255) + 1);

const OWNER = {
  crash(error: unknown) {
    throw error;
  },
};

function createWriter() {
  const socket = new FakeSocket();
  const webSocket = { readyState: 1 };
  return { socket, webSocket, writer: new FrameWriter(webSocket, socket, OWNER) };
}

describe('a frame writer', () => {
  it.each([0, 1, 125, 126, 127, 8192, 8193, 32_768, 32_769, 65_535, 65_536, 200_000])(
    'writes a frame of %i bytes under its length',
    async (length) => {
      const { socket, writer } = createWriter();
      writer.write(filled(length, length));
      await turn();
      expect(socket.frames()).toEqual([{ opcode: 2, payload: filled(length, length) }]);
    },
  );

  it('writes text as text, in UTF-8', async () => {
    const { socket, writer } = createWriter();
    const texts = ['', 'a', 'ü', '漢'.repeat(3000), '😀'.repeat(5000)];
    for (const text of texts) writer.write(text);
    await turn();
    expect(socket.frames().map(({ opcode }) => opcode)).toEqual([1, 1, 1, 1, 1]);
    expect(socket.frames().map(({ payload }) => payload.toString())).toEqual(texts);
  });

  it('writes all small frames of a turn in one chunk', async () => {
    const { socket, writer } = createWriter();
    for (let i = 0; i < 50; i++) writer.write(filled(1000, i));
    expect(socket.writes).toBe(0);
    expect(writer.bufferedAmount).toBe(50_000);
    await turn();
    expect([socket.writes, socket.taken.length, socket.frames().length]).toEqual([1, 1, 50]);
    expect(writer.bufferedAmount).toBe(0);
  });

  it('copies a frame of up to 32 KiB behind its header, if it leaves alone and the socket takes it', async () => {
    const chunksOf = async (sizes: readonly number[], isHeld = false) => {
      const { socket, writer } = createWriter();
      socket.isHeld = isHeld;
      if (isHeld) socket.write(filled(1, 1));
      for (const size of sizes) writer.write(filled(size, size));
      await turn();
      socket.release();
      await turn();
      return socket.taken.length - (isHeld ? 1 : 0);
    };
    const most = 32 * 1024;
    expect(await Promise.all([[most], [most + 1], [most, 1]].map((sizes) => chunksOf(sizes)))).toEqual([
      1, 2, 3,
    ]);
    expect(await chunksOf([most], true)).toBe(2);
  });

  it('does not hold 256 KiB until the end of the turn', async () => {
    const { socket, writer } = createWriter();
    const frame = filled(64 * 1024, 1);
    for (let i = 0; i < 3; i++) writer.write(frame);
    expect(socket.writes).toBe(0);
    writer.write(frame);
    expect([socket.writes, writer.bufferedAmount]).toEqual([1, 0]);
    socket.isHeld = true;
    for (let i = 0; i < 5; i++) writer.write(frame);
    expect(writer.bufferedAmount).toBeGreaterThanOrEqual(5 * frame.length);
    socket.release();
    await turn();
    expect(socket.frames()).toHaveLength(9);
  });

  it('takes a frame in a turn in which it has flushed early, and other writers then fill the turn', async () => {
    const { socket, writer } = createWriter();
    writer.write(filled(256 * 1024, 0));
    for (let i = 0; i < 7; i++) createWriter().writer.write(filled(1, i));
    writer.write(filled(2, 1));
    await turn();
    expect(socket.frames().map(({ payload }) => payload.length)).toEqual([256 * 1024, 2]);
  });

  it('does not need a small frame after the turn', async () => {
    const { socket, writer } = createWriter();
    socket.isHeld = true;
    const frame = filled(100, 1);
    writer.write(frame);
    await turn();
    frame.fill(0xff);
    socket.release();
    expect(socket.frames()).toEqual([{ opcode: 2, payload: filled(100, 1) }]);
  });

  it('keeps pending data of one socket apart from what others write', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ to: fc.nat(3), length: fc.nat(20_000), held: fc.boolean(), ends: fc.boolean() }),
          { maxLength: 40 },
        ),
        async (steps) => {
          const ends = Array.from({ length: 4 }, createWriter);
          const written: Buffer[][] = ends.map(() => []);
          for (const [i, { to, length, held, ends: turnEnds }] of steps.entries()) {
            const { socket, writer } = ends[to] as ReturnType<typeof createWriter>;
            if (held) socket.isHeld = true;
            else socket.release();
            writer.write(filled(length, i));
            written[to]?.push(filled(length, i));
            if (turnEnds) await turn();
          }
          await turn();
          for (const [i, { socket }] of ends.entries()) {
            socket.release();
            await turn();
            socket.release();
            const payloads = socket.frames().map(({ payload }) => payload);
            expect(Buffer.concat(payloads).equals(Buffer.concat(written[i] as Buffer[]))).toBe(true);
            expect(payloads.map(({ length }) => length)).toEqual(written[i]?.map(({ length }) => length));
          }
        },
      ),
    );
  });

  it('counts the bytes that the socket has not taken', async () => {
    const { socket, writer } = createWriter();
    socket.isHeld = true;
    writer.write(filled(1000, 1));
    await turn();
    expect(writer.bufferedAmount).toBe(1004);
    socket.release();
    expect(writer.bufferedAmount).toBe(0);
  });

  it('writes at once when flushed, and nothing once the connection closes', async () => {
    const { socket, webSocket, writer } = createWriter();
    writer.write(filled(10, 1));
    writer.flush();
    expect(socket.frames()).toHaveLength(1);
    writer.write(filled(10, 2));
    webSocket.readyState = 2;
    await turn();
    expect(socket.frames()).toHaveLength(1);
    expect(writer.bufferedAmount).toBe(0);
  });
});

it.each([0, 125, 126, 0xffff, 0x10000, 100_000])(
  "writes a client's frame of %d bytes with a zero mask",
  async (length) => {
    const socket = new FakeSocket();
    const writer = new FrameWriter({ readyState: 1 }, socket, OWNER, true);
    const payload = new Uint8Array(length).fill(7);
    writer.write(payload);
    writer.write('text');
    await turn();
    const bytes = Buffer.concat(socket.taken);
    const extended = length < 126 ? 0 : length < 0x10000 ? 2 : 8;
    expect(bytes.readUInt8(1)).toBe(0x80 | (extended === 0 ? length : extended === 2 ? 126 : 127));
    if (extended === 2) expect(bytes.readUInt16BE(2)).toBe(length);
    if (extended === 8) expect(bytes.readBigUInt64BE(2)).toBe(BigInt(length));
    const begin = 2 + extended + 4;
    expect(bytes.readUInt32BE(begin - 4)).toBe(0);
    expect(bytes.subarray(begin, begin + length).equals(payload)).toBe(true);
    const rest = bytes.subarray(begin + length);
    expect(rest).toEqual(Buffer.concat([Buffer.from([0x81, 0x84, 0, 0, 0, 0]), Buffer.from('text')]));
  },
);

describe('the answer to an upgrade request', () => {
  const HEAD = 'HTTP/1.1 101 Switching Protocols\r\n\r\n';
  const written = (socket: FakeSocket) => socket.taken.map((chunk) => chunk.toString('latin1'));

  it('is one chunk with the frames of its turn', async () => {
    const { socket, writer } = createWriter();
    writer.begin(HEAD);
    writer.write('a');
    writer.write('b');
    expect(socket.writes).toBe(0);
    await turn();
    expect(written(socket)).toEqual([`${HEAD}\x81\x01a\x81\x01b`]);
    writer.write('c');
    await turn();
    expect(written(socket)[1]).toBe('\x81\x01c');
  });

  it('is written at the end of its turn without a frame', async () => {
    const { socket, writer } = createWriter();
    writer.begin(HEAD);
    await turn();
    expect(written(socket)).toEqual([HEAD]);
  });

  it('comes before a control frame of its turn, and before a close that leaves out the frames', async () => {
    const { socket, webSocket, writer } = createWriter();
    writer.begin(HEAD);
    webSocket.readyState = 2;
    writer.write('too late');
    writer.writeControl(8, Uint8Array.of(3, 232));
    await turn();
    expect(written(socket).join('')).toBe(`${HEAD}\x88\x02\x03\xe8`);
  });

  it('comes before a frame that is not copied', async () => {
    const { socket, writer } = createWriter();
    writer.begin(HEAD);
    writer.write(filled(10_000, 1));
    await turn();
    const bytes = Buffer.concat(socket.taken);
    expect(bytes.toString('latin1', 0, HEAD.length)).toBe(HEAD);
    expect(bytes).toHaveLength(HEAD.length + 4 + 10_000);
  });
});
