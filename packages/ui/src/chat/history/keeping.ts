/** Whether chats are kept, and which one this tab shows. */

const OFF_KEY = 'parlance-keep-nothing';
const CHAT_KEY = 'parlance-chat-id';

/** The server may have been told that its pages keep nothing. */
export function canKeep(): boolean {
  return document.documentElement.dataset['history'] !== 'off';
}

/** The user wants no chats to be kept in this browser. */
export function isSwitchedOff(): boolean {
  try {
    return localStorage.getItem(OFF_KEY) !== null;
  } catch {
    return false;
  }
}

export function switchOff(isOff: boolean): void {
  try {
    if (isOff) localStorage.setItem(OFF_KEY, 'yes');
    else localStorage.removeItem(OFF_KEY);
  } catch {
    // The browser blocks storage, so nothing is kept anyway.
  }
}

export function rememberedChat(): string | undefined {
  try {
    return sessionStorage.getItem(CHAT_KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

export function rememberChat(id: string | undefined): void {
  try {
    if (id === undefined) sessionStorage.removeItem(CHAT_KEY);
    else sessionStorage.setItem(CHAT_KEY, id);
  } catch {
    // As above.
  }
}
