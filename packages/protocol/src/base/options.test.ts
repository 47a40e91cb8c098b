import { describe, expect, it } from 'vitest';
import { assertOptions, type OptionKinds, unknownName } from './options.js';

interface Options {
  readonly token?: string | (() => string) | undefined;
  readonly onRequest?: (() => void) | undefined;
  readonly origins?: readonly string[] | undefined;
  readonly reconnect?: object | string | undefined;
  readonly logger?: object | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly isOn?: boolean | undefined;
  readonly port?: number | undefined;
}

const KINDS: OptionKinds<Options> = {
  token: ['text', 'function'],
  onRequest: 'function',
  origins: 'list',
  reconnect: ['object', 'text'],
  logger: 'logger',
  signal: 'signal',
  isOn: 'flag',
  port: 'number',
};

function messageFor(options: unknown, where?: string): string {
  try {
    assertOptions(options as Options, KINDS, where);
    return '';
  } catch (error) {
    expect(error).toMatchObject({ name: 'ProtocolError', code: 'invalid_option' });
    return (error as Error).message;
  }
}

describe('options', () => {
  it.each([
    [undefined],
    [{}],
    [{ token: 'x', origins: [], reconnect: 'fast', isOn: true, port: Number.NaN }],
    [{ token: () => 'x', reconnect: {}, logger: console, signal: new AbortController().signal }],
    [{ token: undefined, onRequest: undefined }],
  ])('of the right kinds are accepted: %o', (options) => {
    expect(messageFor(options)).toBe('');
  });

  it.each([
    [null, 'options: an object is expected, not null'],
    ['secret', 'options: an object is expected, not a string'],
    [[], 'options: an object is expected, not a list'],
    [{ token: 5 }, 'token: a string or a function is expected, not a number'],
    [{ token: null }, 'token: a string or a function is expected, not null'],
    [{ onRequest: 'x' }, 'onRequest: a function is expected, not a string'],
    [{ origins: 'https://a.example' }, 'origins: a list is expected, not a string'],
    [{ reconnect: true }, 'reconnect: an object or a string is expected, not true'],
    [{ logger: { info() {} } }, /^logger: a logger with the methods .* is expected, not an object$/],
    [{ signal: {} }, 'signal: an AbortSignal is expected, not an object'],
    [{ isOn: 'no' }, 'isOn: true or false is expected, not a string'],
    [{ port: '80' }, 'port: a number is expected, not a string'],
  ])('of a wrong kind are refused: %o', (options, message) => {
    expect(messageFor(options)).toEqual(
      typeof message === 'string' ? message : expect.stringMatching(message),
    );
  });

  it('name the option that they are nested in', () => {
    expect(messageFor(true, 'metrics')).toBe('metrics: an object is expected, not true');
    expect(messageFor({ port: '80' }, 'metrics')).toBe('metrics.port: a number is expected, not a string');
    expect(messageFor({ prot: 80 }, 'metrics')).toMatch(
      /^metrics: unknown option "prot", did you mean "port"\?/,
    );
  });

  it.each([
    ['tokne', 'token'],
    ['Token', 'token'],
    ['tokens', 'token'],
    ['onrequest', 'onRequest'],
    ['origin', 'origins'],
    ['reconect', 'reconnect'],
    ['log', undefined],
    ['port2', 'port'],
    ['p', undefined],
    ['__proto__', undefined],
    ['toString', undefined],
    ['x'.repeat(100_000), undefined],
  ])('of an unknown name are refused with the closest known name: %.20s', (name, meant) => {
    const message = messageFor(Object.fromEntries([[name, 1]]));
    expect(/did you mean "(\w+)"/.exec(message)?.[1]).toBe(meant);
    expect(message).toContain('known options: token, onRequest');
    expect(message.length).toBeLessThan(250);
  });
});

it('the error for an unknown name says what kind of name it is', () => {
  expect(unknownName('limit', 'maxStream', ['maxStreams', 'maxAge']).message).toBe(
    'unknown limit "maxStream", did you mean "maxStreams"? (known limits: maxStreams, maxAge)',
  );
});
