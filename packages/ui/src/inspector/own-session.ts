import { type ClientSession, connect } from '@parlance/client';
import { type InspectionEvent, loadCodecs, tap } from '@parlance/client/inspect';

/** A session that the inspector opens itself. Loaded when the user asks for it. */
export interface OwnSession {
  /** Sends a request and reads its answer to the end. */
  ask(text: string): Promise<void>;
  close(): Promise<void>;
}

export async function openOwnSession(
  url: string,
  token: string | undefined,
  onEvent: (event: InspectionEvent) => void,
): Promise<OwnSession> {
  await loadCodecs(['CONTEXT', 'TOKEN', 'DICTIONARY']);
  let session: ClientSession | undefined;
  const WebSocket = tap(globalThis.WebSocket, onEvent, {
    selection: () => session?.stats().lastSelection,
  });
  session = await connect(url, { WebSocket, token });
  void readAll(session);
  const opened = session;
  return {
    async ask(text) {
      for await (const _part of opened.stream(text));
    },
    async close() {
      await opened.close();
    },
  };
}

/** Takes the messages of the server; the frames show what they are, and how the session ends. */
async function readAll(session: ClientSession): Promise<void> {
  try {
    for await (const _message of session);
  } catch {
    // As above.
  }
}
