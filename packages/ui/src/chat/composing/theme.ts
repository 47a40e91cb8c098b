import { byId } from '../../shared/dom.js';

/** Light, dark, or as the system has it. */

const KEY = 'parlance-theme';
const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

export function createThemeSwitch(): void {
  const field = byId<HTMLSelectElement>('theme');
  const show = (theme: Theme) => {
    document.documentElement.style.colorScheme = theme === 'system' ? '' : theme;
    field.value = theme;
  };
  field.addEventListener('change', () => {
    const theme = THEMES.find((each) => each === field.value) ?? 'system';
    show(theme);
    store(theme);
  });
  show(stored());
}

function stored(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === kept) ?? 'system';
  } catch {
    return 'system';
  }
}

function store(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // The browser blocks storage: the theme lasts until the page is loaded again.
  }
}
