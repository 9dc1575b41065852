# docker build -t utds .                                            # installs everything
# docker run --rm -v "$PWD/out:/utds/out" utds                      # the quickstart; its pictures are in out/
# docker run --rm utds make test                                    # the tests
FROM python:3.12-slim

# chromium and its driver are for the tests of the report's page, EGL for pictures of the robots.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends chromium chromium-driver gcc libc6-dev libegl1 make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /utds
COPY . .
RUN make install

CMD ["make", "quickstart"]
