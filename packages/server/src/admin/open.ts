import { isProtocolError } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { Listening } from '../api.js';
import type { Metrics } from '../observe/metrics.js';
import { Admin, type Administered } from './admin.js';

/** The open admin port of a server. */
export interface OpenAdmin {
  readonly listening: Listening;
  close(): Promise<void>;
}

/** @throws {ProtocolError} `connection_failed` if the port cannot be opened. */
export async function openAdmin(
  server: Administered,
  metrics: () => Promise<Metrics>,
): Promise<OpenAdmin | undefined> {
  const { admin: options, logger } = server.options;
  if (options === undefined) return undefined;
  const admin = new Admin(options, server, await metrics(), await pages(logger));
  try {
    const listening = await admin.listen();
    return { listening, close: () => admin.close() };
  } catch (error) {
    await admin.close();
    throw error;
  }
}

/** Without a build of the pages, the port answers programs only. */
async function pages(
  logger: Administered['options']['logger'],
): Promise<ConstructorParameters<typeof Admin>[3]> {
  const { createAdminPages } = await import('../ui.js');
  try {
    return createAdminPages();
  } catch (error) {
    if (!isProtocolError(error)) throw error;
    logger.warn({ event: 'ui.missing', err: loggable(error) }, 'the dashboard is not served');
    return () => false;
  }
}
