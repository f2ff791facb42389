#!/bin/sh
# Fetches the browser files that the cockpit serves, and the test's axe-core, from the npm registry
# that this machine's npm is set up for, and copies what is needed. VENDOR.toml beside the files
# names each with its version, licence and sha256; a test compares. Run it from the repository root.
set -eu

UPLOT=1.6.32 INTER=5.3.0 LUCIDE=1.62.0 AXE=4.14.1
ICONS="layout-dashboard receipt book-open settings log-out pause play x circle-check triangle-alert
circle-x arrow-up search sun moon clock hand rotate-cw filter keyboard circle-pause unplug check
layers list-ordered ban hourglass link scale download info timer server gauge"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() { # NAME VERSION FOLDER
    mkdir "$work/$3"
    archive=$(cd "$work" && npm pack --silent "$1@$2" | tail -n 1)
    tar -xzf "$work/$archive" -C "$work/$3"
}
fetch uplot "$UPLOT" uplot
fetch @fontsource-variable/inter "$INTER" inter
fetch lucide-static "$LUCIDE" lucide
fetch axe-core "$AXE" axe

mkdir -p static/vendor/uplot static/vendor/inter static/vendor/lucide tests/vendor/axe
cp "$work"/uplot/package/dist/uPlot.esm.js "$work"/uplot/package/dist/uPlot.min.css \
    "$work"/uplot/package/LICENSE static/vendor/uplot/
cp "$work"/inter/package/files/inter-latin-wght-normal.woff2 "$work"/inter/package/LICENSE \
    static/vendor/inter/
cp "$work"/axe/package/axe.min.js "$work"/axe/package/LICENSE \
    "$work"/axe/package/LICENSE-3RD-PARTY.txt tests/vendor/axe/
cp "$work"/lucide/package/LICENSE static/vendor/lucide/

# One sprite of the icons in use: each file's drawing as a <symbol> of its name.
sprite=static/vendor/lucide/icons.svg
printf '<svg xmlns="http://www.w3.org/2000/svg">\n' > "$sprite"
for icon in $ICONS; do
    printf '<symbol id="%s" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">' "$icon" >> "$sprite"
    tr '\n' ' ' < "$work/lucide/package/icons/$icon.svg" |
        sed -e 's/<!--[^>]*-->//g' -e 's/<svg[^>]*>//' -e 's/<\/svg>//' -e 's/  */ /g' >> "$sprite"
    printf '</symbol>\n' >> "$sprite"
done
printf '</svg>\n' >> "$sprite"
