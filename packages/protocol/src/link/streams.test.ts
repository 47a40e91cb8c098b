import { describe, expect, it } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import { StreamTable } from './streams.js';

const ids = (run: () => { id: number }, times: number) => Array.from({ length: times }, () => run().id);

describe('streams', () => {
  it('are odd for the client and even for the server, increasing and never reused', () => {
    const client = new StreamTable('client', 3, 3);
    const server = new StreamTable('server', 3, 3);
    expect([ids(() => client.open(), 3), ids(() => server.open(), 3)]).toEqual([
      [1, 3, 5],
      [2, 4, 6],
    ]);
    client.close(5);
    expect(client.open()).toEqual({
      id: 7,
      local: true,
      cancelled: false,
      answered: false,
      isTransfer: false,
      relayed: false,
    });
  });

  it('of the peer are accepted in increasing order, with gaps', () => {
    const server = new StreamTable('server', 9, 9);
    expect(server.accept(1)).toEqual({
      id: 1,
      local: false,
      cancelled: false,
      answered: false,
      isTransfer: false,
      relayed: false,
    });
    expect(server.accept(99).id).toBe(99);
    for (const id of [97, 99, 1]) expect(errorCode(() => server.accept(id))).toBe('bad_frame');
    server.close(99);
    expect(errorCode(() => server.accept(99))).toBe('bad_frame');
    expect(server.accept(101).id).toBe(101);
  });

  it.each([
    ['client', 1],
    ['client', 0],
    ['server', 2],
    ['server', 0],
  ] as const)('of the %s cannot be opened by its peer: %i', (side, id) => {
    const table = new StreamTable(side, 9, 9);
    expect(errorCode(() => table.accept(id))).toBe('bad_frame');
    expect(table.size).toBe(0);
  });

  it('are limited to n per end, and a closed one frees its slot', () => {
    const table = new StreamTable('client', 2, 3);
    ids(() => table.open(), 2);
    for (const id of [2, 4, 6]) table.accept(id);
    expect(table.size).toBe(5);
    expect(errorCode(() => table.open())).toBe('too_many_streams');
    expect(errorCode(() => table.accept(8))).toBe('too_many_streams');
    table.close(1);
    table.close(1);
    expect(table.open().id).toBe(5);
    expect(errorCode(() => table.open())).toBe('too_many_streams');
    // A refused stream was not opened.
    expect(table.wasOpened(8)).toBe(false);
    table.close(4);
    expect(table.accept(8).id).toBe(8);
    expect(errorCode(() => table.accept(10))).toBe('too_many_streams');
  });

  it('are known while they are open, and known to have been open afterwards', () => {
    const table = new StreamTable('client', 9, 9);
    table.open();
    table.accept(4);
    const seen = (id: number) => [table.get(id)?.id, table.wasOpened(id)];
    expect([1, 2, 3, 4, 5, 6].map(seen)).toEqual([
      [1, true],
      // Below an ID that was opened, so it may have been opened as well.
      [undefined, true],
      [undefined, false],
      [4, true],
      [undefined, false],
      [undefined, false],
    ]);
    table.close(1);
    table.close(4);
    expect([seen(1), seen(4), table.size]).toEqual([[undefined, true], [undefined, true], 0]);
    table.close(99);
    expect(table.size).toBe(0);
  });

  it('never include stream 0, which is not opened', () => {
    for (const side of ['client', 'server'] as const) {
      const table = new StreamTable(side, 9, 9);
      table.open();
      table.accept(side === 'client' ? 2 : 1);
      expect([table.wasOpened(0), table.get(0)]).toEqual([false, undefined]);
    }
  });

  it('lists the open streams of both ends', () => {
    const table = new StreamTable('server', 9, 9);
    table.open();
    table.accept(1);
    expect([...table.all()].map(({ id, local }) => [id, local])).toEqual([
      [2, true],
      [1, false],
    ]);
  });

  it('of the peer keep their slot until their answer is written', () => {
    const table = new StreamTable('server', 9, 2);
    for (const id of [1, 3]) table.accept(id);
    table.closeUnwritten(1);
    expect(table.get(1)).toBeUndefined();
    expect(errorCode(() => table.accept(5))).toBe('too_many_streams');
    table.release(1);
    table.release(1);
    table.release(3);
    expect(table.accept(5).id).toBe(5);
    expect(errorCode(() => table.accept(7))).toBe('too_many_streams');
  });
});
