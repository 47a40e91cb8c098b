import type {
  AdminEvent,
  AdminHistory,
  AdminSessions,
  AdminState,
  SessionTimeline,
} from '../../../server/src/operate/admin/figures.js';

/** The answers of the admin port to this page. */
export interface AdminApi {
  state(): Promise<AdminState>;
  sessions(query: Readonly<Record<string, string>>): Promise<AdminSessions>;
  /** @param rangeMs before now. */
  history(rangeMs: number): Promise<AdminHistory>;
  timeline(id: string): Promise<SessionTimeline>;
  closeSession(id: string): Promise<void>;
  drain(): Promise<void>;
  /** Closes what is left, as at the deadline of the drain. */
  finishDrain(): Promise<void>;
  /** Calls `onEvent` for each event until `signal` aborts. Rejects if the connection ends. */
  events(onEvent: (event: AdminEvent) => void, signal: AbortSignal): Promise<void>;
}

export class AdminFailure extends Error {
  override readonly name = 'AdminFailure';
  /** `undefined` if there was no answer. */
  readonly status: number | undefined;

  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

/** How long the server may take to answer, in milliseconds. */
const ANSWER_MS = 5_000;

const isTimeout = (reason: unknown) => reason instanceof DOMException && reason.name === 'TimeoutError';

export function createAdminApi(token: string): AdminApi {
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const response = await fetch(`/admin/${path}`, {
      ...init,
      headers: { authorization: `Bearer ${token}` },
      cache: 'no-store',
    }).catch((error: unknown) => {
      const reason: unknown = init.signal?.reason;
      if (init.signal?.aborted === true && !isTimeout(reason)) throw error;
      throw new AdminFailure('The server does not answer.');
    });
    if (response.ok) return response;
    throw new AdminFailure(await messageOf(response), response.status);
  };
  const read = async <T>(path: string): Promise<T> => {
    const response = await ask(path, { signal: AbortSignal.timeout(ANSWER_MS) });
    return (await response.json().catch(() => {
      throw new AdminFailure('The server does not answer.');
    })) as T;
  };
  const order = async (path: string): Promise<void> => void (await ask(path, { method: 'POST' }));
  return {
    state: () => read('state'),
    sessions: (query) => read(`sessions?${new URLSearchParams(query)}`),
    history: (rangeMs) => read(`history${Number.isFinite(rangeMs) ? `?rangeMs=${rangeMs}` : ''}`),
    timeline: (id) => read(`sessions/${encodeURIComponent(id)}`),
    closeSession: (id) => order(`sessions/${encodeURIComponent(id)}/close`),
    drain: () => order('drain'),
    finishDrain: () => order('drain/finish'),
    async events(onEvent, signal) {
      const { body } = await ask('events', { signal });
      if (body === null) return;
      let text = '';
      for (const reader = body.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        const lines = (text + value).split('\n\n');
        text = lines.pop() ?? '';
        for (const line of lines)
          if (line.startsWith('data: ')) onEvent(JSON.parse(line.slice(6)) as AdminEvent);
      }
    },
  };
}

async function messageOf(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { readonly error: { readonly message: string } };
    return error.message;
  } catch {
    return `HTTP ${response.status}`;
  }
}
