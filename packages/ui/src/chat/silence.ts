/** Notices that nothing arrives of an answer that is being written. */
export interface Silence {
  /** An answer is waited for from now on. */
  begin(): void;
  /** Something of it has arrived, or the connection is back. */
  hear(): void;
  /** It is waited for no more. */
  end(): void;
}

/** A connection that is frozen counts as lost only when PINGs have stayed without an answer, some ten seconds later. */
const SILENT_AFTER_MS = 3_000;

export function createSilence(onChange: (isSilent: boolean) => void): Silence {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isSilent = false;
  const set = (value: boolean) => {
    if (value === isSilent) return;
    isSilent = value;
    onChange(value);
  };
  const restart = () => {
    clearTimeout(timer);
    timer = setTimeout(() => set(true), SILENT_AFTER_MS);
    set(false);
  };
  return {
    begin: restart,
    hear() {
      if (timer !== undefined) restart();
    },
    end() {
      clearTimeout(timer);
      timer = undefined;
      set(false);
    },
  };
}
