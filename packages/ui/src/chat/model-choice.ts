import { byId, create } from '../shared/dom.js';

/** The menu of models. Any name may be entered; the API's own list comes first. */
export interface ModelChoice {
  readonly model: string;
  /** If the user has chosen no model, takes one that the API has, unless that is slow to answer. Does not reject. */
  settle(): Promise<void>;
}

const DEFAULT = 'gpt-4o';
/** How long a question waits for the names of the API, in milliseconds. */
const MAX_WAIT_MS = 1_000;
/** Models that answer no questions. */
const IS_OTHER = /embed|rerank|whisper|tts|transcri|moderation|image|dall-e|sora/i;
const KEY = 'parlance-model';

/** @param list gets the names of the models from the API; `undefined` if no session is open. */
export function createModelChoice(list: () => Promise<readonly string[] | undefined>): ModelChoice {
  const opener = byId<HTMLButtonElement>('model-open');
  const menu = byId('model-menu');
  const names = byId('model-names');
  const told = byId('model-told');
  const form = byId<HTMLFormElement>('model-form');
  const field = byId<HTMLInputElement>('model-other');
  const chosen = new URLSearchParams(location.search).get('model') ?? stored();
  let model = chosen ?? DEFAULT;
  /** The user has chosen a model, or the API was asked. */
  let isSettled = chosen !== undefined;
  let listed: readonly string[] = [];
  let loading: Promise<void> | undefined;

  function choose(name: string): void {
    model = name;
    isSettled = true;
    store(name);
    show();
    menu.hidePopover();
    byId('question').focus();
  }

  function show(): void {
    byId('model-name').textContent = model;
    names.replaceChildren(
      ...listed.toSorted().map((name) => {
        const button = create('button', { type: 'button' }, name);
        if (name === model) button.ariaCurrent = 'true';
        button.addEventListener('click', () => choose(name));
        return create('li', {}, button);
      }),
    );
  }

  async function load(): Promise<void> {
    if (listed.length > 0) return;
    told.textContent = 'Asking the API …';
    const answer = await list();
    listed = answer ?? [];
    told.textContent = listed.length === 0 ? 'The API lists no models.' : '';
    const [first = model] = listed.filter((name) => !IS_OTHER.test(name));
    if (!isSettled && !listed.includes(model)) model = first;
    isSettled ||= answer !== undefined;
    show();
    if (menu.matches(':popover-open')) place();
  }

  /** Asks once at a time. */
  function loaded(): Promise<void> {
    loading ??= load().finally(() => {
      loading = undefined;
    });
    return loading;
  }

  function place(): void {
    const { left, bottom } = opener.getBoundingClientRect();
    const { width } = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(8, Math.min(left, window.innerWidth - width - 8))}px`;
    menu.style.top = `${bottom + 4}px`;
  }

  menu.addEventListener('toggle', (event) => {
    const isOpen = (event as ToggleEvent).newState === 'open';
    opener.ariaExpanded = String(isOpen);
    if (!isOpen) return;
    place();
    field.focus();
    void loaded();
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const name = field.value.trim();
    field.value = '';
    if (name !== '') choose(name);
  });
  show();
  return {
    get model() {
      return model;
    },
    async settle() {
      if (isSettled) return;
      const waited = new Promise((resolve) => setTimeout(resolve, MAX_WAIT_MS));
      await Promise.race([loaded().catch(() => {}), waited]);
    },
  };
}

function stored(): string | undefined {
  try {
    return sessionStorage.getItem(KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

function store(model: string): void {
  try {
    sessionStorage.setItem(KEY, model);
  } catch {
    // The browser blocks storage; then the choice lasts until the page is loaded again.
  }
}
