import { byId } from '../../shared/dom.js';

/** The options that are sent with each request besides the conversation. */
export interface Setup {
  /** Empty if there is none. */
  readonly system: string;
  /** `undefined` if the API chooses. */
  readonly temperature: number | undefined;
}

const KEY = 'parlance-setup';
const [COLDEST, HOTTEST] = [0, 2];

/** The folded fields below the question. @returns what they say at present. */
export function createSetup(): () => Setup {
  const opener = byId<HTMLButtonElement>('setup-open');
  const box = byId('setup');
  const system = byId<HTMLTextAreaElement>('system');
  const temperature = byId<HTMLInputElement>('temperature');
  [system.value, temperature.value] = stored();

  const read = (): Setup => {
    const degrees = Number(temperature.value);
    const isGiven = temperature.value.trim() !== '' && degrees >= COLDEST && degrees <= HOTTEST;
    return { system: system.value.trim(), temperature: isGiven ? degrees : undefined };
  };
  const show = () => {
    const { system: text, temperature: degrees } = read();
    opener.classList.toggle('set', text !== '' || degrees !== undefined);
  };
  opener.addEventListener('click', () => {
    box.hidden = !box.hidden;
    opener.ariaExpanded = String(!box.hidden);
    if (!box.hidden) system.focus();
  });
  for (const field of [system, temperature])
    field.addEventListener('input', () => {
      store(JSON.stringify([system.value, temperature.value]));
      show();
    });
  show();
  return read;
}

function stored(): [string, string] {
  try {
    const [system, temperature]: unknown[] = JSON.parse(sessionStorage.getItem(KEY) ?? '[]');
    return [typeof system === 'string' ? system : '', typeof temperature === 'string' ? temperature : ''];
  } catch {
    return ['', ''];
  }
}

function store(text: string): void {
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // The browser blocks storage.
  }
}
