import type { ServerResponse } from 'node:http';
import { ProtocolError } from '@parlance/protocol';
import { ask, notify, truncateReason } from '@parlance/protocol/internal';
import { statusOf } from '../../session/admission/identify.js';
import type { HttpHandler, Page } from '../../transport/http/status.js';
import type { OpenSocket, UpgradeTarget } from '../../transport/http/upgrade.js';
import type { Transport, TransportEvents } from '../../transport/transport.js';

/** Guards around features that answer requests and WebSockets: a fault ends the one that it was called for, and nothing else. */

/** The close code of RFC 6455 for a server that has failed. */
const FAILED = { closeCode: 1011, message: '' };

type Report = (error: unknown) => void;

/** @param hook `http` of a feature for one path. */
export function guardedHttp(hook: () => unknown, report: Report): Page | HttpHandler | undefined {
  const failing = (error: unknown): HttpHandler => {
    report(error);
    return (_request, response) => answerFailed(response, undefined);
  };
  const read = (given: unknown): Page | HttpHandler | undefined => {
    if (given === undefined || isPage(given)) return given;
    if (typeof given === 'function') return guardedHandler(given as HttpHandler, report);
    throw new ProtocolError('invalid_argument', 'http: a page or a function is expected');
  };
  return ask(hook, read, failing);
}

function guardedHandler(handler: HttpHandler, report: Report): HttpHandler {
  return (request, response) =>
    notify(
      () => handler(request, response),
      (error) => {
        if (statusOf(error) === undefined) report(error);
        answerFailed(response, error);
      },
    );
}

/** @param error if it says why a client is refused, the answer says so. */
function answerFailed(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy();
  const status = statusOf(error);
  const { message, retryAfterMs } = status === undefined ? FAULT : (error as ProtocolError);
  if (retryAfterMs !== undefined) response.setHeader('retry-after', Math.ceil(retryAfterMs / 1000));
  if (status === 401) response.setHeader('www-authenticate', 'Bearer');
  response.writeHead(status ?? 500, {
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
  });
  response.end(`${message}\n`);
}

const FAULT = { message: 'the server failed to answer; its log says why', retryAfterMs: undefined };

function isPage(given: unknown): given is Page {
  return typeof given === 'object' && given !== null && 'type' in given && typeof given.type === 'string';
}

/** @param hook `upgrade` of a feature for one path. */
export function guardedUpgrade(hook: () => unknown, report: Report): UpgradeTarget | 'failed' | undefined {
  const read = (given: unknown): UpgradeTarget | undefined => {
    if (given === undefined) return undefined;
    const { subprotocol, open } = given as UpgradeTarget;
    if (typeof open !== 'function' || !['string', 'undefined'].includes(typeof subprotocol))
      throw new ProtocolError('invalid_argument', 'upgrade: an object with the function open is expected');
    return {
      subprotocol,
      open(transport, peer) {
        const fail: Report = (error) => {
          const isRefusal = statusOf(error) !== undefined;
          if (!isRefusal) report(error);
          const { closeCode, message } = isRefusal ? (error as ProtocolError) : FAILED;
          transport.close(closeCode, truncateReason(message));
        };
        notify(() => open.call(given, guardEvents(transport, fail), peer), fail);
      },
    };
  };
  const failed = (error: unknown) => {
    report(error);
    return 'failed' as const;
  };
  return ask<UpgradeTarget | 'failed' | undefined>(hook, read, failed);
}

/** Guards the events of a transport, each of which its listener may leave out. */
function guardEvents(transport: Transport, fail: Report): OpenSocket {
  const { listen } = transport;
  return Object.assign(transport, {
    listen(events: Partial<TransportEvents>): void {
      listen.call(transport, {
        onMessage: (...given) => notify(() => events.onMessage?.(...given), fail),
        onControl: () => notify(() => events.onControl?.(), fail),
        onData: (size) => notify(() => events.onData?.(size), fail),
        onDrain: () => notify(() => events.onDrain?.(), fail),
        onClose: (...given) => notify(() => events.onClose?.(...given), fail),
        onFault: (error) => notify(() => events.onFault?.(error), fail),
      });
    },
  });
}
