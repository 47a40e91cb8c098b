import { type Logger, ResumeRefusal } from '@parlance/protocol';
import { incarnationOf } from '@parlance/protocol/internal';

/** Tells sessions of a server that knows no other process from those of other processes. */
export class OtherProcesses {
  readonly #logger: Logger;
  readonly #process: string;
  #hasWarned = false;

  /** @param process names it in the IDs of its sessions. */
  constructor(logger: Logger, process: string) {
    this.#logger = logger;
    this.#process = process;
  }

  /** A client wants to resume a session that is not here. It is said once: each client of a process that was replaced comes. */
  handle(sessionId: string, reason: ResumeRefusal): void {
    const isOwn = (incarnationOf(sessionId) ?? this.#process) === this.#process;
    if (isOwn || this.#hasWarned || reason !== ResumeRefusal.UNKNOWN_SESSION) return;
    this.#hasWarned = true;
    this.#logger.warn(
      { event: 'session.of_other_process', session: sessionId },
      'a client came with a session of another process or server: one before this one, whose sessions ended with it, or one that shares this port ' +
        '(PM2 or other workers), where each of these loses the sessions of the others: "Several processes" in docs/faq.md says what to do',
    );
  }
}
