import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import { closeListener, listenOn } from './listener.js';

it('logs what fails at an open port, again and again, and rejects what keeps it from opening', async () => {
  const lines: object[] = [];
  const logger = { ...SILENT_LOGGER, error: (fields: object) => void lines.push(fields) };
  const http = createServer();
  await listenOn(http, { port: 0, host: '127.0.0.1' }, logger);
  for (const message of ['too many files', 'too many files still']) http.emit('error', new Error(message));
  expect(lines).toMatchObject([{ event: 'port.failed' }, { event: 'port.failed' }]);
  const { port } = http.address() as AddressInfo;
  await expect(listenOn(createServer(), { port, host: '127.0.0.1' }, logger)).rejects.toThrow(
    'that port is in use',
  );
  expect(lines).toHaveLength(2);
  await closeListener(http);
});
