import type { Logger, OnError } from '@parlance/protocol';
import {
  createErrorPrinter,
  guardLogger,
  reportError,
  SILENT_LOGGER,
  systemClock,
} from '@parlance/protocol/client';

/** The logger of a session. Its lines about errors reach `onError` as well. */
export function loggerOf({
  logger,
  onError = logger ? undefined : printError(),
}: {
  readonly logger?: Logger | undefined;
  readonly onError?: OnError | undefined;
}): Logger {
  return guardLogger(
    logger ?? SILENT_LOGGER,
    onError && ((fields, message) => reportError(onError, fields, message)),
  );
}

function printError(): OnError {
  return createErrorPrinter(
    (line, error) => console.error(line, error),
    () => systemClock.now(),
  );
}
