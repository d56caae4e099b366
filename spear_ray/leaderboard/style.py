"""The report's style sheet: light and dark, from a phone of 360 px to a desktop."""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;
--page:#fbfbfa;--card:#fff;--ink:#1d2126;--soft:#5a636e;--line:#e3e5e8;--faint:#eef0f2;
--system:#2762a8;--system-soft:#2762a833;--reference:#a85400;--reference-soft:#e08a2b2e;--warn:#9c2f2f;
--below:#3f7fcc;--above:#d9603b}
@media (prefers-color-scheme:dark){:root{
--page:#14171b;--card:#1b1f24;--ink:#e8eaed;--soft:#a2abb5;--line:#31373e;--faint:#252a30;
--system:#84b4f0;--system-soft:#84b4f038;--reference:#f2a75c;--reference-soft:#f2a75c2b;--warn:#f09a9a;
--below:#4d8fe0;--above:#d0623f}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1080px;margin:0 auto;padding:40px 20px 72px}
header .kicker{margin:0;color:var(--soft);font-size:13px;letter-spacing:.06em;text-transform:uppercase}
h1{margin:2px 0 6px;font-size:clamp(26px,5vw,36px);line-height:1.15;letter-spacing:-.015em;font-weight:650}
h2{margin:52px 0 6px;font-size:21px;line-height:1.3;letter-spacing:-.01em;font-weight:650}
h3{margin:26px 0 6px;font-size:16px;font-weight:650}
p{margin:0 0 12px;max-width:72ch}
.lead{color:var(--soft)}
.facts{margin:0 0 18px;color:var(--soft);font-size:14px;overflow-wrap:anywhere}
ul.notes{margin:12px 0 0;padding-left:20px;color:var(--soft);font-size:14px}
.scroll{overflow-x:auto;margin:14px 0;background:var(--card);border:1px solid var(--line);border-radius:10px}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:9px 14px;text-align:right;vertical-align:top;white-space:nowrap;
border-bottom:1px solid var(--line)}
thead th{color:var(--soft);font-weight:550;font-size:13px;vertical-align:bottom;white-space:normal}
tbody tr:last-child>*{border-bottom:0}
th.text,td.text{text-align:left}
td.wide{white-space:normal;min-width:260px;overflow-wrap:anywhere}
th[scope=row]{font-weight:600}
small{display:block;color:var(--soft);font-size:12px;font-weight:400;line-height:1.4}
tr.is-reference>*{background:var(--reference-soft)}
tr.group>th{text-align:left;white-space:normal;background:var(--faint);padding:10px 14px;font-weight:600}
tr.group small{max-width:80ch}
.tag{display:inline-block;margin-left:8px;padding:0 7px;border:1px solid currentColor;border-radius:9px;
color:var(--reference);font-size:11px;font-weight:550;line-height:17px;vertical-align:1px}
.unit{color:var(--soft);font-weight:400}
.bar{display:block;height:4px;margin:7px 0 0 auto;border-radius:2px;background:var(--system)}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:14px;
margin:14px 0}
.panel{margin:0;padding:16px 18px 12px;background:var(--card);border:1px solid var(--line);border-radius:10px;
min-width:0}
figcaption{margin-bottom:10px}
.about{display:block;color:var(--soft);font-size:13px;line-height:1.4}
.dots{display:grid;grid-template-columns:minmax(0,30%) minmax(0,1fr) auto;column-gap:12px;font-size:13px}
.dots>*{align-self:stretch}
.name{display:flex;flex-direction:column;justify-content:center;padding:5px 0;line-height:1.3;
overflow-wrap:anywhere}
.name.is-reference{color:var(--reference);font-weight:600}
.value{padding:4px 0;text-align:right;font-variant-numeric:tabular-nums;line-height:1.3}
.track{position:relative;min-height:38px}
.track svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.ticks{position:relative;height:22px;color:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
.ticks span{position:absolute;top:3px;transform:translateX(-50%);white-space:nowrap}
svg path{fill:none;vector-effect:non-scaling-stroke}
.grid{stroke:var(--line);stroke-width:1}
.band{fill:var(--reference-soft)}
.reference-line{stroke:var(--reference);stroke-width:1.5;stroke-dasharray:4 3}
.interval{stroke:var(--system);stroke-width:2.5;stroke-linecap:round}
.point{stroke:var(--system);stroke-width:10;stroke-linecap:round}
.is-reference .interval,.is-reference .point{stroke:var(--reference)}
.latencies{display:grid;grid-template-columns:minmax(0,210px) minmax(0,1fr);column-gap:18px;
font-size:14px;margin:14px 0;padding:12px 18px 8px;background:var(--card);border:1px solid var(--line);
border-radius:10px}
.latencies .track{height:84px;margin-top:8px}
.latencies .name{padding:0}
svg path.area{fill:var(--system-soft)}
.own{stroke:var(--system);stroke-width:1.5}
.is-reference svg path.area{fill:var(--reference-soft)}
.is-reference .own{stroke:var(--reference)}
svg path.outline{stroke:var(--reference);stroke-width:1.3;stroke-dasharray:3 2.5}
.is-reference svg path.outline{display:none}
.zero{stroke:var(--ink);stroke-width:1.5}
.answers{stroke:var(--system);stroke-width:1;opacity:.55}
.is-reference .answers{stroke:var(--reference)}
.turns .track{height:96px}
svg path.speech{fill:var(--system-soft);stroke:var(--system);stroke-width:1}
svg path.speech.answering{fill:var(--reference-soft);stroke:var(--reference)}
.surprise{stroke:var(--warn);stroke-width:1.5}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;margin:0 0 4px;color:var(--soft);font-size:13px}
.legend span::before{content:"";display:inline-block;width:16px;height:0;margin-right:7px;vertical-align:4px;
border-top:2px solid var(--ink)}
.legend .system::before{border-top:8px solid var(--system-soft);vertical-align:1px}
.legend .reference::before{border-top:2px dashed var(--reference)}
.legend .answers-bar::before{border-top:8px solid var(--reference-soft);vertical-align:1px}
.legend .surprise-line::before{border-top:2px solid var(--warn)}
.legend .below::before{border-top:8px solid var(--below);vertical-align:1px}
.legend .above::before{border-top:8px solid var(--above);vertical-align:1px}
.heat .scroll{width:fit-content;max-width:100%}
.heat th[scope=row]{position:sticky;left:0;background:var(--card);max-width:300px;white-space:normal}
.heat td{border-bottom-color:var(--card)}
.heat td small{color:inherit}
ol.notes{margin:6px 0 0;padding-left:26px;color:var(--soft);font-size:14px}
pre{margin:10px 0;padding:12px 14px;overflow-x:auto;background:var(--card);border:1px solid var(--line);
border-radius:10px;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
details{margin:10px 0}
summary{cursor:pointer;color:var(--soft);font-size:14px;overflow-wrap:anywhere}
summary:hover{color:var(--ink)}
.error{color:var(--warn);font-weight:600}
@media (max-width:620px){
main{padding:26px 14px 48px}
th,td{padding:8px 10px}
th[scope=row],tbody td.text:first-child{white-space:normal;min-width:96px;max-width:132px;
overflow-wrap:anywhere}
.tag{margin-left:0}
.heat th[scope=row]{min-width:124px;max-width:124px}
.heat td{padding:8px 7px}
.panel{padding:14px 14px 10px}
.dots{grid-template-columns:minmax(0,31%) minmax(0,1fr) auto;column-gap:8px;font-size:12px}
.dots small{font-size:11px}
.latencies{grid-template-columns:minmax(0,1fr);padding:12px 14px 8px}
.latencies .name{padding-top:12px;flex-flow:row wrap;justify-content:flex-start;align-items:baseline;
column-gap:10px}
.latencies .track{height:72px;margin-top:2px}
.latencies>span:not(.name){display:none}}
@media print{body{background:#fff}.scroll,.panel,.latencies{break-inside:avoid}}
"""
