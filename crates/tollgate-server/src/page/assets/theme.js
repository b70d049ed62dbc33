// Runs before anything is drawn, so that a page that is to be dark never flashes white.
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
