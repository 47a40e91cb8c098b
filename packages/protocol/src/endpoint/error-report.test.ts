import { describe, expect, it } from 'vitest';
import { ProtocolError, RequestError } from '../base/errors.js';
import { createErrorPrinter, type ErrorContext, reportError } from './error-report.js';
import { guardLogger } from './guard.js';
import { loggable } from './loggable.js';
import { SILENT_LOGGER } from './ports.js';

const line = (error: unknown) => ({ event: 'request.failed', session: 's1', err: loggable(error) });

describe('onError', () => {
  function begin() {
    const got: [unknown, ErrorContext][] = [];
    const logger = guardLogger(SILENT_LOGGER, (fields, message) =>
      reportError((error, context) => got.push([error, context]), fields, message),
    );
    return { got, logger };
  }

  it('gets the error itself with what the log says about it', () => {
    const { got, logger } = begin();
    for (const error of [new TypeError('x is not a function'), 'a text', undefined, Object.freeze({})]) {
      logger.warn(line(error), 'a request handler failed');
      const context = { event: 'request.failed', session: 's1', message: 'a request handler failed' };
      expect(got.pop()).toEqual([error, context]);
    }
    logger.error({ event: 'server.failed', err: loggable(new ProtocolError('internal', 'x')) }, 'y');
    expect(got.pop()?.[1]).toEqual({ event: 'server.failed', message: 'y' });
  });

  it('gets neither answers, nor lines for debugging, nor lines without an error', () => {
    const { got, logger } = begin();
    logger.warn(line(new RequestError('not_found', 'x')), '');
    logger.debug(line(new Error('x')), '');
    logger.warn({ event: 'x' }, '');
    logger.warn({ event: 'x', err: new Error('not described') }, '');
    expect(got).toEqual([]);
  });

  it('may throw or reject', async () => {
    const rejections: unknown[] = [];
    const note = (reason: unknown) => rejections.push(reason);
    process.on('unhandledRejection', note);
    const thrower = () => {
      throw new Error('a');
    };
    reportError(thrower, line(1), '');
    reportError((async () => thrower()) as () => void, line(1), '');
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(rejections).toEqual([]);
  });
});

it('prints twenty errors at once, then one a second, and says how many it left out', () => {
  let now = 0;
  const lines: string[] = [];
  const print = createErrorPrinter(
    (text) => lines.push(text),
    () => now,
  );
  const context = { event: 'request.failed', message: 'a request handler failed' };
  for (let i = 0; i < 23; i++) print(i, context);
  expect(lines).toHaveLength(20);
  now = 999;
  print(0, context);
  expect(lines).toHaveLength(20);
  now = 1_000;
  print(0, context);
  print(0, context);
  expect(lines.slice(20)).toEqual([
    'request.failed: a request handler failed (4 more errors were not printed)',
  ]);
});
