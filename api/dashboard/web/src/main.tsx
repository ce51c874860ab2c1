import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { App } from "./app";
import { boot } from "./state";
import { listenForKeys } from "./ui/keys";

boot();
listenForKeys();
const root = document.getElementById("app");
if (root) render(<App />, root);
