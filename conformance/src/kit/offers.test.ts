import { describe, expect, it } from 'vitest';
import { Deviation } from './deviation.js';
import { contextOf, windowsOf } from './offers.js';

describe('parameters in which a member is null', () => {
  it('have its standard value beside std', () => {
    expect(windowsOf('{"std":1,"stream_window":null,"message_window":null,"max_streams":null}')).toEqual({
      maxStreams: 128,
      messages: 1_048_576,
      stream: 16_384,
    });
    const own = '{"max_bytes":9000000,"max_messages":9}';
    expect(contextOf(own, '{"std":1,"max_bytes":null}')).toEqual({ maxBytes: 4_194_304, maxMessages: 8 });
  });

  it('are as without it where there is no std', () => {
    const unlimited = Number.POSITIVE_INFINITY;
    expect(windowsOf('{"stream_window":null}')).toEqual({
      maxStreams: unlimited,
      messages: unlimited,
      stream: unlimited,
    });
    expect(() =>
      contextOf('{"max_bytes":9,"max_messages":9}', '{"max_bytes":null,"max_messages":8}'),
    ).toThrow(Deviation);
  });
});
