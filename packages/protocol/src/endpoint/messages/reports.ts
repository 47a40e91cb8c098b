import { parts } from '#parts';
import { DELIVERY } from '../../base/constants.js';
import type { BodyCoder } from '../../codec/coder.js';
import { addressingOf } from '../../session/body-rules.js';
import { guardLater } from '../guard.js';
import type { EndpointHost } from '../host.js';
import { loggable } from '../loggable.js';

/** Bytes of reports that may wait for a peer that does not read them. */
const MAX_QUEUED_REPORTS = 64 * 1024;

/** Tells the application which messages the server could not deliver. */
export function readReport(host: EndpointHost, text: () => string): void {
  const { core, logger, options } = host;
  const read = ({ decodeUndelivered }: { readonly decodeUndelivered: DecodeReport }) =>
    host.notify('undelivered', decodeUndelivered(text(), options.limits));
  const reportFault = (error: unknown) => {
    const fields = { event: 'report.unreadable', session: core.id, err: loggable(error) };
    logger.warn(fields, 'cannot read a delivery report');
  };
  if (parts.delivery.isLoaded) {
    try {
      read(parts.delivery.get());
    } catch (error) {
      reportFault(error);
    }
  } else guardLater(host, parts.delivery.load().then(read).catch(reportFault));
}

/** Tells the peer that a message had no reader at this end, if it understands reports. */
export function reportUnread({ core, negotiated }: EndpointHost, coder: BodyCoder): void {
  if (addressingOf(negotiated) !== 'all' || core.channel.queuedOn(0) >= MAX_QUEUED_REPORTS) return;
  const report = parts.delivery.get().encodeUndelivered({
    to: '@server',
    outcome: 'not_sent',
    code: 'unsupported',
    first: undefined,
    count: 1,
  });
  try {
    core.channel.send({ ...coder.encode(report, {}), address: DELIVERY });
  } catch {
    // No codec of the session can carry a report; the log line has to do.
  }
}

type DecodeReport = typeof import('./delivery.js').decodeUndelivered;
