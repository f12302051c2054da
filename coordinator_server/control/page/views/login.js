// The login: by the token of the control server, or as a user of the broker.

import { call, token, waysToLogIn } from "../api.js";
import { h } from "../dom.js";
import { field, say } from "../ui.js";

export const login = {
  title: () => "Log in",
  wants: () => false,
  every: 3_600_000,

  load: (parts, query, signal) => waysToLogIn(signal),

  show({ isOpen, byToken, byUser }, parts, query) {
    const go = () => {
      location.hash = query.then ?? "#/";
    };
    const useToken = (event) => {
      event.preventDefault();
      token.set(new FormData(event.currentTarget).get("token").trim());
      go();
    };
    const byName = async (event) => {
      event.preventDefault();
      const { user, password } = Object.fromEntries(new FormData(event.currentTarget));
      try {
        const session = await call("POST", "/login", { body: { user, password } });
        token.set(session.token);
        go();
      } catch (error) {
        say(`Log in: ${error.message}`, true);
      }
    };
    return h(
      "div",
      null,
      h("h1", null, "Log in"),
      h("p", null, needs(isOpen, byToken, byUser)),
      byToken ? tokenForm(useToken) : null,
      byUser ? userForm(byName) : null,
    );
  },
};

const needs = (isOpen, byToken, byUser) => {
  if (isOpen) return "This broker’s control server needs no login.";
  if (byToken && byUser) return "This broker’s control server needs a token or a user.";
  return `This broker’s control server needs a ${byToken ? "token" : "user"}.`;
};

const tokenForm = (onsubmit) => [
  h("h2", null, "With a token"),
  h(
    "form",
    { class: "form", onsubmit },
    field({
      name: "token",
      label: "Token",
      type: "password",
      hint: "from the file of --http-token-file",
    }),
    h("button", { type: "submit" }, "Use the token"),
  ),
];

const userForm = (onsubmit) => [
  h("h2", null, "As a user of the broker"),
  h(
    "form",
    { class: "form", onsubmit },
    field({ name: "user", label: "User" }),
    field({ name: "password", label: "Password", type: "password" }),
    h("button", { type: "submit" }, "Log in"),
  ),
];
