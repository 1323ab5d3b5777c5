#!/usr/bin/env bash
# Install the system's Chromium for the browser tests where it is missing and this user may; they skip elsewhere.
set -uo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  command -v "$name" > /dev/null && exit 0
done
sudo=""
if [ "$(id -u)" -ne 0 ]; then
  if ! sudo -n true 2> /dev/null; then
    echo "No Chromium here and no right to install it: the browser tests will skip."
    exit 0
  fi
  sudo="sudo -n"
fi
if ! command -v apt-get > /dev/null; then
  echo "No Chromium and no apt-get here: the browser tests will skip."
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
if $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends chromium fonts-liberation > /dev/null; then
  echo "Installed Chromium."
else
  echo "Chromium could not be installed: the browser tests will skip."
fi
exit 0
