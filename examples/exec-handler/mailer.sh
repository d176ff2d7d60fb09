# mailer.sh
field() { printf '%s' "$line" | sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"; }

while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
  total=$(field total)
  if [ "${total:--1}" -ge 0 ]; then
    echo "attempt $(field attempt): $(field type) $(field partitionkey) $total" >> mail.log
    printf '{"id":"%s","ok":true}\n' "$id"
  else
    printf '{"id":"%s","error":"the event has no total","permanent":true}\n' "$id"
  fi
done
