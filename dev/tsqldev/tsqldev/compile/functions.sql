-- The scalar function library of the compiler. Purpose: what PostgreSQL does otherwise than T-SQL, as functions.
-- Safe to run again. Values are held as tsqldev.types says. Errors: SQLSTATE TS000, DETAIL 'number,severity,state'.
CREATE SCHEMA IF NOT EXISTS sys;

-- fail: raise a SQL Server error; the result type makes it usable where any value is expected.
-- Volatile, although nothing changes: a constant call of an immutable one is evaluated when a generic plan is made.
CREATE OR REPLACE FUNCTION sys.fail(number int, message text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'TS000', MESSAGE = message, DETAIL = number || ',16,1';
END $$;

-- ---- collation: equality keys and ordering keys ------------------------------------------------------------------

CREATE OR REPLACE FUNCTION sys.upper(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN upper(v COLLATE "pg_c_utf8") COLLATE "default";
CREATE OR REPLACE FUNCTION sys.lower(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN lower(v COLLATE "pg_c_utf8") COLLATE "default";
CREATE OR REPLACE FUNCTION sys.fold(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN lower(v COLLATE "pg_c_utf8") COLLATE "default";
CREATE OR REPLACE FUNCTION sys.bin2(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN rtrim(v, ' ');
CREATE OR REPLACE FUNCTION sys.cs(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN rtrim(v, ' ');
-- wide: what the default collation calls the same beyond code page 1252: a letter with an accent of its own, full width,
-- and characters beyond U+FFFF, which it does not know and which are nothing to it.
CREATE OR REPLACE FUNCTION sys.wide(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF v !~ U&'[\0300-\036F\FF01-\FF5E\+010000-\+10FFFF]' THEN RETURN v; END IF;
  RETURN rtrim(regexp_replace(translate(normalize(v, NFC),
    '！＂＃＄％＆＇（）＊＋，－．／０１２３４５６７８９：；＜＝＞？＠ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ［＼］＾＿｀ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ｛｜｝～', '!"#$%&''()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefghijklmnopqrstuvwxyz{|}~'), U&'[\+010000-\+10FFFF]', '', 'g'), ' ');
END $$;
CREATE OR REPLACE FUNCTION sys.ci(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN lower(CASE WHEN octet_length(v) = length(v) THEN rtrim(v, ' ') ELSE sys.wide(rtrim(v, ' ')) END COLLATE "pg_c_utf8") COLLATE "default";

-- plain_letters: without accents.
CREATE OR REPLACE FUNCTION sys.plain_letters(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN octet_length(v) = length(v) THEN v
              ELSE normalize(regexp_replace(normalize(v, NFD), U&'[\0300-\036F]', '', 'g'), NFC) END;
CREATE OR REPLACE FUNCTION sys.fold_accents(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sys.plain_letters(lower(v COLLATE "pg_c_utf8"));
CREATE OR REPLACE FUNCTION sys.ai(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sys.plain_letters(lower(rtrim(v, ' ') COLLATE "pg_c_utf8"));

-- symbols_first: blanks and punctuation before digits before letters, as the Latin1 sort orders have it.
CREATE OR REPLACE FUNCTION sys.symbols_first(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN translate(v, ' _-,;:!?.''"()[]{}@*/\&#%`^+<=>|~$',
    E'\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x20\x21\x22\x23\x24\x25');
-- ci_order: letters first, then accents. In PL/pgSQL, as a body this long would be copied into every query that sorts.
CREATE OR REPLACE FUNCTION sys.ci_order(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE folded text := sys.ci(v);
BEGIN
  RETURN sys.symbols_first(CASE WHEN octet_length(folded) = length(folded) THEN folded ELSE sys.plain_letters(folded) END)
    || E'\x01' || folded;
END $$;
CREATE OR REPLACE FUNCTION sys.ai_order(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sys.symbols_first(sys.ai(v));
CREATE OR REPLACE FUNCTION sys.cs_order(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sys.symbols_first(sys.ai(v)) || E'\x01' || sys.ci(v) || E'\x01' || translate(rtrim(v, ' '),
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ');

-- uuid_order: bytes 10-15, 8-9, 6-7, 4-5, 0-3 (as SQL Server holds them, the first three groups byte-reversed).
CREATE OR REPLACE FUNCTION sys.uuid_bytes(v uuid) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT substring(b, 4, 1) || substring(b, 3, 1) || substring(b, 2, 1) || substring(b, 1, 1)
      || substring(b, 6, 1) || substring(b, 5, 1) || substring(b, 8, 1) || substring(b, 7, 1) || substring(b, 9, 8)
  FROM (SELECT uuid_send(v)) s(b) $$;
CREATE OR REPLACE FUNCTION sys.uuid_order(v uuid) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT substring(b, 11, 6) || substring(b, 9, 2) || substring(b, 7, 2) || substring(b, 5, 2) || substring(b, 1, 4)
  FROM (SELECT sys.uuid_bytes(v)) s(b) $$;
CREATE OR REPLACE FUNCTION sys.bytes_uuid(v bytea) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN v IS NULL THEN NULL ELSE encode(substring(b, 4, 1) || substring(b, 3, 1) || substring(b, 2, 1)
      || substring(b, 1, 1) || substring(b, 6, 1) || substring(b, 5, 1) || substring(b, 8, 1) || substring(b, 7, 1)
      || substring(b, 9, 8), 'hex')::uuid END
  FROM (SELECT substring(v || decode(repeat('00', 16), 'hex'), 1, 16)) s(b) $$;

-- instant: what counts of a datetimeoffset when it is compared. no_zeros: bytes compare as if zeros followed them.
CREATE OR REPLACE FUNCTION sys.instant(v numeric) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN div(v, 4096)::int8;
CREATE OR REPLACE FUNCTION sys.no_zeros(v bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN rtrim(v, '\x00'::bytea);

-- Aggregates whose order is the collation's.
CREATE OR REPLACE FUNCTION sys.lesser_ci(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS
  $$ SELECT CASE WHEN sys.ci_order(b) < sys.ci_order(a) THEN b ELSE a END $$;
CREATE OR REPLACE FUNCTION sys.greater_ci(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS
  $$ SELECT CASE WHEN sys.ci_order(b) > sys.ci_order(a) THEN b ELSE a END $$;
CREATE OR REPLACE FUNCTION sys.lesser_uuid(a uuid, b uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS
  $$ SELECT CASE WHEN sys.uuid_order(b) < sys.uuid_order(a) THEN b ELSE a END $$;
CREATE OR REPLACE FUNCTION sys.greater_uuid(a uuid, b uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS
  $$ SELECT CASE WHEN sys.uuid_order(b) > sys.uuid_order(a) THEN b ELSE a END $$;
CREATE OR REPLACE AGGREGATE sys.min_ci(text) (SFUNC = sys.lesser_ci, STYPE = text);
CREATE OR REPLACE AGGREGATE sys.max_ci(text) (SFUNC = sys.greater_ci, STYPE = text);
CREATE OR REPLACE AGGREGATE sys.min_cs(text) (SFUNC = sys.lesser_ci, STYPE = text);
CREATE OR REPLACE AGGREGATE sys.max_cs(text) (SFUNC = sys.greater_ci, STYPE = text);
CREATE OR REPLACE AGGREGATE sys.min_ai(text) (SFUNC = sys.lesser_ci, STYPE = text);
CREATE OR REPLACE AGGREGATE sys.max_ai(text) (SFUNC = sys.greater_ci, STYPE = text);
CREATE OR REPLACE AGGREGATE sys.min_uuid(uuid) (SFUNC = sys.lesser_uuid, STYPE = uuid);
CREATE OR REPLACE AGGREGATE sys.max_uuid(uuid) (SFUNC = sys.greater_uuid, STYPE = uuid);

-- ---- code pages and bytes ----------------------------------------------------------------------------------------

-- to_varchar: nvarchar to code page 1252: what it does not have becomes a question mark. Its five undefined bytes are
-- the control characters U+0081, 8D, 8F, 90 and 9D, in both directions.
CREATE OR REPLACE FUNCTION sys.to_varchar(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN octet_length(v) = length(v) THEN v ELSE
    regexp_replace(regexp_replace(v, U&'[\+010000-\+10FFFF]', '??', 'g'), U&'[^\0001-\007F\0081\008D\008F\0090\009D\00A0-\00FF\20AC\201A\0192\201E\2026\2020\2021\02C6\2030\0160\2039\0152\017D\2018\2019\201C\201D\2022\2013\2014\02DC\2122\0161\203A\0153\017E\0178]', '?', 'g') END;
CREATE OR REPLACE FUNCTION sys.varchar_bytes(v text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF octet_length(v) = length(v) THEN RETURN convert_to(v, 'UTF8'); END IF;
  RETURN convert_to(translate(sys.to_varchar(v),
    U&'\20AC\201A\0192\201E\2026\2020\2021\02C6\2030\0160\2039\0152\017D\2018\2019\201C\201D\2022\2013\2014\02DC\2122\0161\203A\0153\017E\0178',
    U&'\0080\0082\0083\0084\0085\0086\0087\0088\0089\008A\008B\008C\008E\0091\0092\0093\0094\0095\0096\0097\0098\0099\009A\009B\009C\009E\009F'), 'LATIN1');
END $$;
-- codepage_text: bytes of code page 1252 (without zero bytes) as text.
CREATE OR REPLACE FUNCTION sys.codepage_text(v bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE plain text := convert_from(v, 'LATIN1');
BEGIN
  -- Mostly the text is ASCII, or at least has none of the bytes that the two code pages read otherwise.
  IF octet_length(plain) = octet_length(v) THEN RETURN plain; END IF;
  IF position('\x81'::bytea IN v) + position('\x8d'::bytea IN v) + position('\x8f'::bytea IN v) + position('\x90'::bytea IN v)
     + position('\x9d'::bytea IN v) = 0 THEN RETURN convert_from(v, 'WIN1252'); END IF;
  RETURN translate(plain,
    U&'\0080\0082\0083\0084\0085\0086\0087\0088\0089\008A\008B\008C\008E\0091\0092\0093\0094\0095\0096\0097\0098\0099\009A\009B\009C\009E\009F',
    U&'\20AC\201A\0192\201E\2026\2020\2021\02C6\2030\0160\2039\0152\017D\2018\2019\201C\201D\2022\2013\2014\02DC\2122\0161\203A\0153\017E\0178');
END $$;
CREATE OR REPLACE FUNCTION sys.codepage_bytes(v text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN length(v);
CREATE OR REPLACE FUNCTION sys.utf16_bytes(v text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN octet_length(v) = length(v) THEN 2 * length(v)
              ELSE 2 * (length(v) + regexp_count(v, U&'[\+010000-\+10FFFF]')) END;
CREATE OR REPLACE FUNCTION sys.len(v text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sys.utf16_bytes(rtrim(v, ' ')) / 2;
CREATE OR REPLACE FUNCTION sys.utf16_unit(code int) RETURNS text LANGUAGE sql IMMUTABLE STRICT
  RETURN lpad(to_hex(code & 255), 2, '0') || lpad(to_hex(code >> 8), 2, '0');
CREATE OR REPLACE FUNCTION sys.nvarchar_bytes(v text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF octet_length(v) = length(v) THEN
    RETURN decode(regexp_replace(encode(convert_to(v, 'UTF8'), 'hex'), '(..)', '\100', 'g'), 'hex');
  END IF;
  RETURN (SELECT decode(coalesce(string_agg(CASE WHEN ascii(c) < 65536 THEN sys.utf16_unit(ascii(c))
      ELSE sys.utf16_unit(55296 + ((ascii(c) - 65536) >> 10)) || sys.utf16_unit(56320 + ((ascii(c) - 65536) & 1023)) END,
      '' ORDER BY n), ''), 'hex')
    FROM unnest(string_to_array(v, NULL)) WITH ORDINALITY AS u(c, n));
END $$;
CREATE OR REPLACE FUNCTION sys.bytes_nvarchar(v bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  size int := octet_length(v) / 2;
  result text := '';
  high int := 0;
  code int;
  narrow bytea;
BEGIN
  -- Text of ASCII alone is every second byte; it is one if writing it again gives the same bytes.
  narrow := decode(replace(encode(v, 'escape'), '\000', ''), 'escape');
  IF octet_length(narrow) * 2 = octet_length(v) AND narrow = convert_to(convert_from(narrow, 'LATIN1'), 'UTF8')
     AND sys.nvarchar_bytes(convert_from(narrow, 'LATIN1')) = v THEN
    RETURN convert_from(narrow, 'LATIN1');
  END IF;
  FOR i IN 0 .. size - 1 LOOP
    code := get_byte(v, 2 * i) + 256 * get_byte(v, 2 * i + 1);
    IF code BETWEEN 55296 AND 56319 THEN
      high := code;
    ELSIF code BETWEEN 56320 AND 57343 THEN
      result := result || CASE WHEN high > 0 THEN chr(65536 + ((high - 55296) << 10) + (code - 56320)) ELSE chr(65533) END;
      high := 0;
    ELSIF code = 0 THEN
      PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: the character U+0000 in a string.');
    ELSE
      result := result || chr(code);
    END IF;
  END LOOP;
  RETURN result;
END $$;
CREATE OR REPLACE FUNCTION sys.bytes_varchar(v bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF position('\x00'::bytea IN v) > 0 THEN
    PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: the character U+0000 in a string.');
  END IF;
  RETURN sys.codepage_text(v);
END $$;
-- to_units: a text whose characters are the units of UTF-16: what is beyond U+FFFF becomes two characters of plane 15.
-- Positions and lengths in T-SQL count units; a half of a pair alone cannot be kept here, and is refused.
CREATE OR REPLACE FUNCTION sys.to_units(v text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT string_agg(CASE WHEN ascii(c) < 65536 THEN c
    ELSE chr(983040 + ((ascii(c) - 65536) >> 10)) || chr(984064 + ((ascii(c) - 65536) & 1023)) END, '' ORDER BY n)
  FROM unnest(string_to_array(v, NULL)) WITH ORDINALITY AS u(c, n) $$;
CREATE OR REPLACE FUNCTION sys.from_units(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  result text := '';
  high int := 0;
  code int;
  c text;
BEGIN
  FOREACH c IN ARRAY string_to_array(v, NULL) LOOP
    code := ascii(c) - 983040;
    IF code BETWEEN 1024 AND 2047 AND high > 0 THEN
      result := result || chr(65536 + ((high - 1) << 10) + code - 1024);
      high := 0;
    ELSIF code >= 0 OR high > 0 THEN
      IF high > 0 OR code > 1023 THEN
        PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: half of a character beyond U+FFFF.');
      END IF;
      high := code + 1;
    ELSE
      result := result || c;
    END IF;
  END LOOP;
  IF high > 0 THEN
    PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: half of a character beyond U+FFFF.');
  END IF;
  RETURN result;
END $$;
-- has_pairs: whether a text has characters beyond U+FFFF.
CREATE OR REPLACE FUNCTION sys.has_pairs(v text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN octet_length(v) <> length(v) AND v ~ U&'[\+010000-\+10FFFF]';
-- no_pairs: a text whose positions are the same in characters and in units. Collations with supplementary characters count
-- characters, and are not emulated further than that.
CREATE OR REPLACE FUNCTION sys.no_pairs(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF sys.has_pairs(v) THEN
    PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: a character beyond U+FFFF under a collation with supplementary characters.');
  END IF;
  RETURN v;
END $$;
CREATE OR REPLACE FUNCTION sys.cut(v text, size int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN sys.has_pairs(v) THEN sys.from_units(left(sys.to_units(v), size)) ELSE left(v, size) END;
CREATE OR REPLACE FUNCTION sys.pad(v text, size int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN sys.has_pairs(v) THEN sys.from_units(rpad(sys.to_units(v), size)) ELSE rpad(v, size) END;
-- bytes_text: binary to character types; style 1 is 0x..., 2 is without 0x, 0 the bytes themselves.
CREATE OR REPLACE FUNCTION sys.bytes_text(v bytea, style int, wide boolean, attempt boolean) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE style WHEN 1 THEN '0x' || upper(encode(v, 'hex')) WHEN 2 THEN upper(encode(v, 'hex'))
    ELSE CASE WHEN wide THEN sys.bytes_nvarchar(v) ELSE sys.bytes_varchar(v) END END;
CREATE OR REPLACE FUNCTION sys.text_bytes(v text, style int, wide boolean, attempt boolean) RETURNS bytea
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE digits text;
BEGIN
  IF v IS NULL THEN RETURN NULL; END IF;
  IF style NOT IN (1, 2) THEN
    RETURN CASE WHEN wide THEN sys.nvarchar_bytes(v) ELSE sys.varchar_bytes(v) END;
  END IF;
  digits := CASE WHEN style = 1 AND lower(left(v, 2)) = '0x' THEN substr(v, 3) WHEN style = 2 THEN v END;
  IF digits IS NULL OR length(digits) % 2 = 1 OR digits !~ '^[0-9a-fA-F]*$' THEN
    IF attempt THEN RETURN NULL; END IF;
    PERFORM sys.fail(8114, 'Error converting data type ' || CASE WHEN wide THEN 'nvarchar' ELSE 'varchar' END || ' to varbinary.');
  END IF;
  RETURN decode(digits, 'hex');
END $$;
CREATE OR REPLACE FUNCTION sys.integer_bytes(v int8, size int) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN size <= 8 THEN substring(int8send(v) FROM 9 - size)
    ELSE decode(repeat('00', size - 8), 'hex') || int8send(v) END;
CREATE OR REPLACE FUNCTION sys.bytes_integer(v bytea, size int) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  result int8 := 0;
  part bytea := CASE WHEN octet_length(v) > size THEN substring(v FROM octet_length(v) - size + 1) ELSE v END;
BEGIN
  FOR i IN 0 .. octet_length(part) - 1 LOOP
    result := (result << 8) | get_byte(part, i);
  END LOOP;
  IF size = 4 AND result >= 2147483648 THEN result := result - 4294967296; END IF;
  IF size = 2 AND result >= 32768 THEN result := result - 65536; END IF;
  RETURN result;
END $$;
CREATE OR REPLACE FUNCTION sys.pad_bytes(v bytea, size int) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN v || decode(repeat('00', greatest(size - octet_length(v), 0)), 'hex');

-- ---- assignment --------------------------------------------------------------------------------------------------

-- fit: a string that must not be longer than its column; blanks at its end may be cut. 2628 names the column.
CREATE OR REPLACE FUNCTION sys.too_long(v text, size int, tab text, col text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF length(rtrim(v, ' ')) <= size THEN RETURN left(v, size); END IF;
  RETURN sys.fail(2628, format('String or binary data would be truncated in table ''%s'', column ''%s''. Truncated value: ''%s''.',
    tab, col, left(v, least(size, 100))));
END $$;
CREATE OR REPLACE FUNCTION sys.fit(v text, size int, tab text, col text) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN length(v) <= size THEN v WHEN v IS NULL THEN NULL ELSE sys.too_long(v, size, tab, col) END;
-- fit_units: the same for a column of UTF-16.
CREATE OR REPLACE FUNCTION sys.fit_units(v text, size int, tab text, col text) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN sys.has_pairs(v) THEN sys.from_units(sys.fit(sys.to_units(v), size, tab, col)) ELSE sys.fit(v, size, tab, col) END;
CREATE OR REPLACE FUNCTION sys.bytes_too_long(v bytea, size int, tab text, col text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM sys.fail(2628, format('String or binary data would be truncated in table ''%s'', column ''%s''. Truncated value: ''%s''.', tab, col, ''));
END $$;
CREATE OR REPLACE FUNCTION sys.fit_bytes(v bytea, size int, tab text, col text) RETURNS bytea LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN octet_length(v) <= size THEN v WHEN v IS NULL THEN NULL ELSE sys.bytes_too_long(v, size, tab, col) END;
CREATE OR REPLACE FUNCTION sys.aggregate_limit(v text, size int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF sys.utf16_bytes(v) / 2 > size THEN
    PERFORM sys.fail(9829, 'STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid result truncation.');
  END IF;
  RETURN v;
END $$;

-- ---- numbers -----------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION sys.integer_bounds(kind text, OUT low numeric, OUT high numeric) LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE kind WHEN 'tinyint' THEN 0 WHEN 'smallint' THEN -32768 WHEN 'int' THEN -2147483648 ELSE -9223372036854775808 END::numeric,
         CASE kind WHEN 'tinyint' THEN 255 WHEN 'smallint' THEN 32767 WHEN 'int' THEN 2147483647 ELSE 9223372036854775807 END::numeric $$;
CREATE OR REPLACE FUNCTION sys.integer_fit(v int8, kind text, attempt boolean) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF (kind = 'tinyint' AND v BETWEEN 0 AND 255) OR (kind = 'smallint' AND v BETWEEN -32768 AND 32767)
     OR (kind = 'int' AND v BETWEEN -2147483648 AND 2147483647) OR kind = 'bigint' THEN RETURN v; END IF;
  IF attempt THEN RETURN NULL; END IF;
  IF kind = 'int' THEN
    PERFORM sys.fail(8115, 'Arithmetic overflow error converting expression to data type int.');
  END IF;
  PERFORM sys.fail(220, format('Arithmetic overflow error for data type %s, value = %s.', kind, v));
END $$;
-- tinyint_result: the result of arithmetic on tinyint.
CREATE OR REPLACE FUNCTION sys.tinyint_result(v int4) RETURNS int2 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v BETWEEN 0 AND 255 THEN RETURN v; END IF;
  RETURN sys.fail(8115, 'Arithmetic overflow error converting expression to data type tinyint.')::int2;
END $$;
CREATE OR REPLACE FUNCTION sys.numeric_to_integer(v numeric, kind text, source text, attempt boolean) RETURNS int8
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE b record;
BEGIN
  b := sys.integer_bounds(kind);
  IF v BETWEEN b.low AND b.high THEN RETURN v::int8; END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(8115, format('Arithmetic overflow error converting %s to data type %s.',
    CASE WHEN source = 'money' THEN 'money' ELSE 'expression' END, kind));
END $$;
CREATE OR REPLACE FUNCTION sys.float_to_integer(v float8, kind text, attempt boolean) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE b record;
BEGIN
  b := sys.integer_bounds(kind);
  IF trunc(v) >= b.low::float8 AND trunc(v) <= b.high::float8 AND abs(v) < 9.3e18 THEN RETURN trunc(v)::numeric::int8; END IF;
  IF attempt THEN RETURN NULL; END IF;
  IF kind <> 'bigint' THEN
    PERFORM sys.fail(232, format('Arithmetic overflow error for type %s, value = %s.', kind, to_char(v, 'FM999999999999999990.000000')));
  END IF;
  PERFORM sys.fail(8115, format('Arithmetic overflow error converting expression to data type %s.', kind));
END $$;
CREATE OR REPLACE FUNCTION sys.numeric_fit(v numeric, p int, s int, source text, target text, attempt boolean) RETURNS numeric
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE r numeric := round(v, s);
BEGIN
  IF (target = 'money' AND r BETWEEN -922337203685477.5808 AND 922337203685477.5807)
     OR (target = 'smallmoney' AND r BETWEEN -214748.3648 AND 214748.3647)
     OR (target NOT IN ('money', 'smallmoney') AND abs(r) < power(10::numeric, p - s)) THEN RETURN r; END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(8115, format('Arithmetic overflow error converting %s to data type %s.',
    CASE source WHEN 'decimal' THEN 'numeric' ELSE source END, CASE target WHEN 'decimal' THEN 'numeric' ELSE target END));
END $$;
CREATE OR REPLACE FUNCTION sys.float_numeric(v float8) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT
  RETURN CASE WHEN abs(v) < 1e15 THEN v::numeric ELSE v::text::numeric END;
CREATE OR REPLACE FUNCTION sys.number_fit(v text, size int, short text, source text, target text) RETURNS text
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF length(v) <= size THEN RETURN v; END IF;
  IF short <> '' THEN RETURN short; END IF;
  IF source IN ('int', 'smallint', 'tinyint', 'bigint') THEN
    PERFORM sys.fail(8115, format('Arithmetic overflow error converting expression to data type %s.', target));
  END IF;
  RETURN sys.fail(8115, format('Arithmetic overflow error converting %s to data type %s.',
    CASE source WHEN 'decimal' THEN 'numeric' ELSE source END, target));
END $$;
CREATE OR REPLACE FUNCTION sys.clamp(v int8) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN v > 2147483647 THEN 2147483647 WHEN v < -2147483647 THEN -2147483647 ELSE v END::int4;
CREATE OR REPLACE FUNCTION sys.text_to_integer(v text, target text, source text, attempt boolean) RETURNS int8
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  s text := btrim(v, E' \t\r\n');
  n numeric;
  b record;
BEGIN
  IF s = '' THEN RETURN 0; END IF;
  IF s !~ '^[+-]?[0-9]+$' THEN
    IF attempt THEN RETURN NULL; END IF;
    IF target = 'bigint' THEN
      PERFORM sys.fail(8114, format('Error converting data type %s to bigint.', source));
    END IF;
    PERFORM sys.fail(245, format('Conversion failed when converting the %s value ''%s'' to data type %s.', source, v, target));
  END IF;
  n := s::numeric;
  b := sys.integer_bounds(target);
  IF n BETWEEN b.low AND b.high THEN RETURN n::int8; END IF;
  IF attempt THEN RETURN NULL; END IF;
  IF target = 'bigint' THEN
    PERFORM sys.fail(8115, 'Arithmetic overflow error converting expression to data type bigint.');
  ELSIF target = 'int' THEN
    PERFORM sys.fail(248, format('The conversion of the %s value ''%s'' overflowed an int column.', source, v));
  END IF;
  PERFORM sys.fail(244, format('The conversion of the %s value ''%s'' overflowed an %s column. Use a larger integer column.',
    source, v, CASE target WHEN 'tinyint' THEN 'INT1' ELSE 'INT2' END));
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_bit(v text, source text, attempt boolean) RETURNS int2 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE s text := lower(btrim(v, ' '));
BEGIN
  IF s = 'true' THEN RETURN 1; END IF;
  IF s IN ('false', '') THEN RETURN 0; END IF;
  IF s ~ '^[+-]?[0-9]+$' THEN RETURN (s::numeric <> 0)::int4; END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(245, format('Conversion failed when converting the %s value ''%s'' to data type bit.', source, v));
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_numeric(v text, p int, s int, source text, attempt boolean) RETURNS numeric
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  t text := btrim(v, E' \t\r\n');
  r numeric;
BEGIN
  IF t !~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$' THEN
    IF attempt THEN RETURN NULL; END IF;
    PERFORM sys.fail(8114, format('Error converting data type %s to numeric.', source));
  END IF;
  r := round(t::numeric, s);
  IF abs(r) < power(10::numeric, p - s) THEN RETURN r; END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(8115, format('Arithmetic overflow error converting %s to data type numeric.', source));
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_money(v text, p int, source text, attempt boolean) RETURNS numeric
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE t text := replace(btrim(v, ' '), ',', '');
BEGIN
  t := regexp_replace(t, '^([+-]?)\s*[$£€]\s*', '\1');
  IF t = '' THEN RETURN 0; END IF;
  IF t !~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$' THEN
    IF attempt THEN RETURN NULL; END IF;
    PERFORM sys.fail(235, 'Cannot convert a char value to money. The char value has incorrect syntax.');
  END IF;
  RETURN sys.numeric_fit(t::numeric, p, 4, source, CASE p WHEN 19 THEN 'money' ELSE 'smallmoney' END, attempt);
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_float(v text, source text, target text, attempt boolean) RETURNS float8
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE t text := btrim(v, E' \t\r\n');
BEGIN
  IF t = '' THEN RETURN 0; END IF;
  IF t !~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][+-]?[0-9]+)?$' THEN
    IF attempt THEN RETURN NULL; END IF;
    PERFORM sys.fail(8114, format('Error converting data type %s to %s.', source, target));
  END IF;
  RETURN translate(t, 'dD', 'ee')::float8;
END $$;
CREATE OR REPLACE FUNCTION sys.isnumeric(v text) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN coalesce((btrim(v, ' ') ~ '^[$£€]?[+-]?[$£€]?([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)([eEdD][+-]?[0-9]+)?$'
    OR btrim(v, ' ') IN ('$', '£', '€', '+', '-', '.', ','))::int4, 0);
CREATE OR REPLACE FUNCTION sys.money_text(v numeric, style int) RETURNS text LANGUAGE sql IMMUTABLE STRICT
  RETURN CASE style WHEN 1 THEN to_char(round(v, 2), 'FM999,999,999,999,990.00') WHEN 2 THEN to_char(v, 'FM999999999999990.0000')
    WHEN 126 THEN to_char(v, 'FM999999999999990.0000') ELSE to_char(round(v, 2), 'FM999999999999990.00') END;
-- float_text: style 0 has six digits; 1 eight and 2 sixteen in scientific notation; 3 seventeen.
CREATE OR REPLACE FUNCTION sys.float_text(v float8, style int, single boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  digits int := CASE style WHEN 1 THEN 8 WHEN 2 THEN 16 WHEN 3 THEN 17 ELSE 6 END;
  e int;
  m text;
BEGIN
  IF v = 0 AND style = 0 THEN RETURN '0'; END IF;
  IF style = 3 AND abs(v) < 1e15 AND abs(v) >= 1e-5 THEN RETURN v::text; END IF;
  m := to_char(v, '9.' || repeat('9', digits - 1) || 'EEEE');
  m := btrim(m);
  e := split_part(m, 'e', 2)::int;
  IF style = 0 AND e BETWEEN -4 AND 5 THEN
    m := round(v::numeric, digits - 1 - e)::text;
    RETURN CASE WHEN position('.' IN m) > 0 THEN rtrim(rtrim(m, '0'), '.') ELSE m END;
  END IF;
  m := split_part(m, 'e', 1);
  IF style = 0 THEN m := rtrim(rtrim(m, '0'), '.'); END IF;
  RETURN m || 'e' || CASE WHEN e < 0 THEN '-' ELSE '+' END || lpad(abs(e)::text, 3, '0');
END $$;
CREATE OR REPLACE FUNCTION sys.str(v float8, size int, digits int) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT CASE WHEN size > 8000 OR size < 1 THEN NULL WHEN length(t) > size THEN repeat('*', size) ELSE lpad(t, size) END
  FROM (SELECT round(sys.float_numeric(v), digits)::text) s(t) $$;
CREATE OR REPLACE FUNCTION sys.round(v numeric, digits int, cut int) RETURNS numeric LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN cut = 0 THEN round(v, digits) ELSE trunc(v, digits) END;
CREATE OR REPLACE FUNCTION sys.round_float(v float8, digits int, cut int) RETURNS float8 LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN cut = 0 THEN round(sys.float_numeric(v), digits) ELSE trunc(sys.float_numeric(v), digits) END::float8;
CREATE OR REPLACE FUNCTION sys.square_root(v float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v < 0 THEN PERFORM sys.fail(3623, 'An invalid floating point operation occurred.'); END IF;
  RETURN sqrt(v);
END $$;
CREATE OR REPLACE FUNCTION sys.logarithm(v float8, base float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v <= 0 OR base <= 0 OR base = 1 THEN PERFORM sys.fail(3623, 'An invalid floating point operation occurred.'); END IF;
  IF base = 10 THEN RETURN log(v); END IF;
  RETURN CASE WHEN base = exp(1::float8) THEN ln(v) ELSE ln(v) / ln(base) END;
END $$;

-- ---- uniqueidentifier --------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION sys.text_to_uuid(v text, attempt boolean) RETURNS uuid LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE t text := left(v, 36);
BEGIN
  IF left(v, 1) = '{' THEN t := substr(v, 2, 36); END IF;
  IF t ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' THEN RETURN t::uuid; END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(8169, 'Conversion failed when converting from a character string to uniqueidentifier.');
END $$;
CREATE OR REPLACE FUNCTION sys.uuid_fit(v uuid, size int, attempt boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF attempt THEN RETURN NULL; END IF;
  RETURN sys.fail(8170, 'Insufficient result space to convert uniqueidentifier value to char.');
END $$;

-- ---- dates and times: ticks of 100 ns since 0001-01-01 -----------------------------------------------------------

CREATE OR REPLACE FUNCTION sys.ticks(v timestamp) RETURNS int8 LANGUAGE sql IMMUTABLE STRICT
  RETURN (extract(epoch FROM v) * 10000000)::int8 + 621355968000000000;
CREATE OR REPLACE FUNCTION sys.timestamp(v int8) RETURNS timestamp LANGUAGE sql IMMUTABLE STRICT
  RETURN timestamp '0001-01-01' + make_interval(days => (v / 864000000000)::int)
         + ((v % 864000000000) / 10) * interval '1 microsecond';
CREATE OR REPLACE FUNCTION sys.sysdatetime() RETURNS int8 LANGUAGE sql STABLE
  RETURN sys.ticks(statement_timestamp() AT TIME ZONE 'UTC');
-- tick_unit: the ticks of one unit of the last digit at a scale.
CREATE OR REPLACE FUNCTION sys.tick_unit(scale int) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (ARRAY[10000000, 1000000, 100000, 10000, 1000, 100, 10, 1])[scale + 1]::int8;
CREATE OR REPLACE FUNCTION sys.round_ticks(v int8, scale int) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN v > 3155378975999999999 - sys.tick_unit(scale) / 2 THEN 3155378975999999999 / sys.tick_unit(scale) * sys.tick_unit(scale)
    ELSE (v + sys.tick_unit(scale) / 2) / sys.tick_unit(scale) * sys.tick_unit(scale) END;
CREATE OR REPLACE FUNCTION sys.round_time(v int8, scale int) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN v > 863999999999 - sys.tick_unit(scale) / 2 THEN 863999999999 / sys.tick_unit(scale) * sys.tick_unit(scale)
    ELSE (v + sys.tick_unit(scale) / 2) / sys.tick_unit(scale) * sys.tick_unit(scale) END;
CREATE OR REPLACE FUNCTION sys.date_ticks(v int4) RETURNS int8 LANGUAGE sql IMMUTABLE RETURN v::int8 * 864000000000;
CREATE OR REPLACE FUNCTION sys.time_ticks(v int8) RETURNS int8 LANGUAGE sql IMMUTABLE RETURN 599266080000000000 + v;
CREATE OR REPLACE FUNCTION sys.smalldatetime_ticks(v int4) RETURNS int8 LANGUAGE sql IMMUTABLE
  RETURN 599266080000000000 + v::int8 * 600000000;
CREATE OR REPLACE FUNCTION sys.datetime_ticks(v int8) RETURNS int8 LANGUAGE sql IMMUTABLE STRICT
  RETURN 599266080000000000 + floor((v::numeric * 100000 + 1.5) / 3)::int8;
CREATE OR REPLACE FUNCTION sys.datetimeoffset_ticks(v numeric) RETURNS int8 LANGUAGE sql IMMUTABLE STRICT
  RETURN div(v, 4096)::int8 + (mod(v, 4096) - 2048)::int8 * 600000000;
CREATE OR REPLACE FUNCTION sys.datetimeoffset_utc(v numeric) RETURNS int8 LANGUAGE sql IMMUTABLE STRICT
  RETURN div(v, 4096)::int8;
CREATE OR REPLACE FUNCTION sys.datetimeoffset_minutes(v numeric) RETURNS int LANGUAGE sql IMMUTABLE STRICT
  RETURN (mod(v, 4096) - 2048)::int;
CREATE OR REPLACE FUNCTION sys.ticks_datetimeoffset(v int8, minutes int) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT
  RETURN (v - minutes::int8 * 600000000)::numeric * 4096 + minutes + 2048;
CREATE OR REPLACE FUNCTION sys.switchoffset(v numeric, minutes int) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT
  RETURN div(v, 4096) * 4096 + minutes + 2048;
CREATE OR REPLACE FUNCTION sys.round_offset(v numeric, scale int) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT
  RETURN sys.round_ticks(div(v, 4096)::int8, scale)::numeric * 4096 + mod(v, 4096);
CREATE OR REPLACE FUNCTION sys.ticks_date(v int8) RETURNS int4 LANGUAGE sql IMMUTABLE RETURN (v / 864000000000)::int4;
CREATE OR REPLACE FUNCTION sys.ticks_time(v int8, scale int) RETURNS int8 LANGUAGE sql IMMUTABLE
  RETURN sys.round_time(v % 864000000000, scale);
CREATE OR REPLACE FUNCTION sys.ticks_datetime_raw(v int8) RETURNS int8 LANGUAGE sql IMMUTABLE STRICT
  RETURN floor(((v - 599266080000000000)::numeric * 3 + 50000) / 100000)::int8;
CREATE OR REPLACE FUNCTION sys.getdate() RETURNS int8 LANGUAGE sql STABLE
  RETURN sys.ticks_datetime_raw(sys.ticks(statement_timestamp() AT TIME ZONE 'UTC'));
CREATE OR REPLACE FUNCTION sys.ticks_datetime(v int8, source text, attempt boolean) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v >= 552877920000000000 THEN RETURN sys.ticks_datetime_raw(v); END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(242, format('The conversion of a %s data type to a datetime data type resulted in an out-of-range value.', source));
END $$;
CREATE OR REPLACE FUNCTION sys.ticks_smalldatetime(v int8, source text, attempt boolean) RETURNS int4 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v >= 599266080000000000 AND v < 655889184000000000 - 300000000 THEN
    RETURN ((v - 599266080000000000 + 300000000) / 600000000)::int4;
  END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(242, format('The conversion of a %s data type to a smalldatetime data type resulted in an out-of-range value.', source));
END $$;
CREATE OR REPLACE FUNCTION sys.added_datetime(v int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v < 552877920000000000 THEN
    PERFORM sys.fail(517, 'Adding a value to a ''datetime'' column caused an overflow.');
  END IF;
  RETURN sys.ticks_datetime_raw(v);
END $$;
CREATE OR REPLACE FUNCTION sys.added_smalldatetime(v int8) RETURNS int4 LANGUAGE sql IMMUTABLE
  RETURN sys.ticks_smalldatetime(v, 'smalldatetime', false);
CREATE OR REPLACE FUNCTION sys.days_to_datetime(v numeric, attempt boolean) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v >= -53690 AND v < 2958464 THEN RETURN round(v * 25920000)::int8; END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(8115, 'Arithmetic overflow error converting expression to data type datetime.');
END $$;
CREATE OR REPLACE FUNCTION sys.days_to_smalldatetime(v numeric, attempt boolean) RETURNS int4 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v >= 0 AND v < 65536 THEN RETURN round(v * 1440)::int4; END IF;
  IF attempt THEN RETURN NULL; END IF;
  PERFORM sys.fail(8115, 'Arithmetic overflow error converting expression to data type smalldatetime.');
END $$;
CREATE OR REPLACE FUNCTION sys.days_as_datetime(v float8) RETURNS int8 LANGUAGE sql IMMUTABLE RETURN round(v::numeric * 25920000)::int8;
CREATE OR REPLACE FUNCTION sys.days_as_smalldatetime(v float8) RETURNS int4 LANGUAGE sql IMMUTABLE RETURN round(v::numeric * 1440)::int4;
CREATE OR REPLACE FUNCTION sys.days_of_datetime(v int8) RETURNS float8 LANGUAGE sql IMMUTABLE RETURN v::float8 / 25920000;
CREATE OR REPLACE FUNCTION sys.days_of_smalldatetime(v int4) RETURNS float8 LANGUAGE sql IMMUTABLE RETURN v::float8 / 1440;

-- parse_moment: a date and time text under a CONVERT style. day: days since 0001-01-01 (NULL: only a time),
-- tick: ticks of the day, minutes: the offset (NULL: none written). `good` is false for what is no date.
CREATE OR REPLACE FUNCTION sys.parse_moment(v text, style int, OUT good boolean, OUT day int, OUT tick int8, OUT minutes int)
  LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  t text := btrim(v, E' \t\r\n');
  m text[];
  clock text := '';
  y int; mo int; d int;
  months text[] := ARRAY['jan','feb','mar','apr','may','jun','jul','aug','sep','oct','nov','dec'];
  h int; mi int; s int; f text;
BEGIN
  good := false;
  tick := 0;
  IF t = '' THEN
    good := true;
    RETURN;
  END IF;
  m := regexp_match(t, '^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ]\s*(.*))?$');
  IF m IS NOT NULL THEN
    y := m[1]; mo := m[2]; d := m[3]; clock := coalesce(m[4], '');
  ELSE
    m := regexp_match(t, '^(\d{4})(\d{2})(\d{2})(?:[T ]\s*(.*))?$');
    IF m IS NOT NULL THEN
      y := m[1]; mo := m[2]; d := m[3]; clock := coalesce(m[4], '');
    ELSE
      m := regexp_match(t, '^(\d{4})[/.](\d{1,2})[/.](\d{1,2})(?: +(.*))?$');
      IF m IS NOT NULL THEN
        y := m[1]; mo := m[2]; d := m[3]; clock := coalesce(m[4], '');
      ELSE
        m := regexp_match(t, '^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})(?: +(.*))?$');
        IF m IS NOT NULL THEN
          IF style IN (103, 104, 105, 3, 4, 5, 113, 131) THEN d := m[1]; mo := m[2]; ELSE mo := m[1]; d := m[2]; END IF;
          y := m[3]; clock := coalesce(m[4], '');
          IF length(m[3]) = 2 THEN y := y + CASE WHEN y < 50 THEN 2000 ELSE 1900 END; END IF;
        ELSE
          m := regexp_match(lower(t), '^([a-z]{3,9})\.? +(\d{1,2}),? +(\d{4})(?: +(.*))?$');
          IF m IS NOT NULL THEN
            mo := array_position(months, left(m[1], 3)); d := m[2]; y := m[3]; clock := coalesce(m[4], '');
          ELSE
            m := regexp_match(lower(t), '^(\d{1,2})[ -]+([a-z]{3,9})[ ,-]+(\d{4})(?: +(.*))?$');
            IF m IS NOT NULL THEN
              d := m[1]; mo := array_position(months, left(m[2], 3)); y := m[3]; clock := coalesce(m[4], '');
            ELSIF t ~ '^\d{4}$' THEN
              y := t; mo := 1; d := 1;
            ELSE
              clock := t;
            END IF;
          END IF;
        END IF;
      END IF;
    END IF;
  END IF;
  IF y IS NOT NULL THEN
    IF mo IS NULL OR y < 1 OR mo NOT BETWEEN 1 AND 12 OR d < 1
       OR d > extract(day FROM make_date(y, mo, 1) + interval '1 month' - interval '1 day') THEN RETURN; END IF;
    day := make_date(y, mo, d) - date '0001-01-01';
  END IF;
  IF clock <> '' THEN
    m := regexp_match(clock, '^(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:[.:](\d{1,9}))?)?)?\s*([aApP][mM])?\s*([zZ]|[+-]\d{2}:?\d{2})?$');
    IF m IS NULL OR (m[2] IS NULL AND m[5] IS NULL) THEN RETURN; END IF;
    h := m[1]; mi := coalesce(m[2]::int, 0); s := coalesce(m[3]::int, 0); f := rpad(left(coalesce(m[4], ''), 7), 7, '0');
    IF m[5] IS NOT NULL THEN
      IF h NOT BETWEEN 1 AND 12 THEN RETURN; END IF;
      h := h % 12 + CASE WHEN lower(m[5]) = 'pm' THEN 12 ELSE 0 END;
    END IF;
    IF h > 23 OR mi > 59 OR s > 59 THEN RETURN; END IF;
    tick := ((h * 60 + mi) * 60 + s)::int8 * 10000000 + f::int8;
    IF m[6] IS NOT NULL THEN
      IF lower(m[6]) = 'z' THEN
        minutes := 0;
      ELSE
        minutes := (substr(m[6], 2, 2)::int * 60 + right(m[6], 2)::int) * CASE left(m[6], 1) WHEN '-' THEN -1 ELSE 1 END;
        IF abs(minutes) > 840 THEN RETURN; END IF;
      END IF;
    END IF;
  END IF;
  good := true;
END $$;
CREATE OR REPLACE FUNCTION sys.bad_date(attempt boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF attempt THEN RETURN NULL; END IF;
  RETURN sys.fail(241, 'Conversion failed when converting date and/or time from character string.');
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_datetime2(v text, scale int, style int, source text, attempt boolean) RETURNS int8
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE p record;
BEGIN
  p := sys.parse_moment(v, style);
  IF NOT p.good THEN RETURN sys.bad_date(attempt)::int8; END IF;
  RETURN sys.round_ticks(coalesce(p.day, 693595)::int8 * 864000000000 + p.tick, scale);
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_datetime(v text, style int, source text, attempt boolean) RETURNS int8
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE p record;
BEGIN
  p := sys.parse_moment(v, style);
  IF NOT p.good OR p.minutes IS NOT NULL AND v !~ '[zZ]$' OR v ~ ':\d{1,2}[.]\d{4,}' THEN
    IF v ~ '^\s*\d{4}-\d{1,2}-\d{1,2}|^\s*\d{8}|^\s*\d{1,2}/\d{1,2}/\d{4}' AND NOT p.good AND NOT attempt THEN
      PERFORM sys.fail(242, format('The conversion of a %s data type to a datetime data type resulted in an out-of-range value.', source));
    END IF;
    RETURN sys.bad_date(attempt)::int8;
  END IF;
  RETURN sys.ticks_datetime(coalesce(p.day, 693595)::int8 * 864000000000 + p.tick, source, attempt);
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_smalldatetime(v text, style int, source text, attempt boolean) RETURNS int4
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE p record;
BEGIN
  p := sys.parse_moment(v, style);
  IF NOT p.good THEN
    IF attempt THEN RETURN NULL; END IF;
    PERFORM sys.fail(295, 'Conversion failed when converting character string to smalldatetime data type.');
  END IF;
  -- The seconds are read as datetime's: 29.999 is 30.
  RETURN sys.ticks_smalldatetime(sys.datetime_ticks(sys.ticks_datetime_raw(coalesce(p.day, 693595)::int8 * 864000000000 + p.tick)),
    source, attempt);
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_date(v text, style int, source text, attempt boolean) RETURNS int4
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE p record;
BEGIN
  p := sys.parse_moment(v, style);
  IF NOT p.good THEN RETURN sys.bad_date(attempt)::int4; END IF;
  RETURN coalesce(p.day, 693595);
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_time(v text, scale int, style int, source text, attempt boolean) RETURNS int8
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE p record;
BEGIN
  p := sys.parse_moment(v, style);
  IF NOT p.good THEN RETURN sys.bad_date(attempt)::int8; END IF;
  RETURN sys.round_time(p.tick, scale);
END $$;
CREATE OR REPLACE FUNCTION sys.text_to_datetimeoffset(v text, scale int, style int, source text, attempt boolean) RETURNS numeric
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE p record;
BEGIN
  p := sys.parse_moment(v, style);
  IF NOT p.good THEN RETURN sys.bad_date(attempt)::numeric; END IF;
  RETURN sys.ticks_datetimeoffset(sys.round_ticks(coalesce(p.day, 693595)::int8 * 864000000000 + p.tick, scale), coalesce(p.minutes, 0));
END $$;
CREATE OR REPLACE FUNCTION sys.offset_minutes(v text) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v !~ '^[+-]\d{2}:\d{2}$' THEN
    PERFORM sys.fail(9812, 'The timezone provided to builtin function is invalid.');
  END IF;
  RETURN (substr(v, 2, 2)::int * 60 + substr(v, 5, 2)::int) * CASE left(v, 1) WHEN '-' THEN -1 ELSE 1 END;
END $$;
CREATE OR REPLACE FUNCTION sys.zone_minutes(zone text) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF upper(zone) NOT IN ('UTC', 'COORDINATED UNIVERSAL TIME') THEN
    PERFORM sys.fail(40000, format('Not supported by this emulation of SQL Server: time zone %s.', zone));
  END IF;
  RETURN 0;
END $$;
CREATE OR REPLACE FUNCTION sys.ticks_at_zone(v int8, zone text) RETURNS numeric LANGUAGE sql IMMUTABLE
  RETURN sys.ticks_datetimeoffset(v, sys.zone_minutes(zone));
CREATE OR REPLACE FUNCTION sys.offset_at_zone(v numeric, zone text) RETURNS numeric LANGUAGE sql IMMUTABLE
  RETURN sys.switchoffset(v, sys.zone_minutes(zone));

-- moment_text: ticks as text under a CONVERT style; `scale` digits of the second, `kind` the source type.
CREATE OR REPLACE FUNCTION sys.moment_text(v int8, scale int, style int, kind text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  ts timestamp := sys.timestamp(v);
  frac text := lpad((v % 10000000)::text, 7, '0');
  fine text := CASE WHEN kind IN ('datetime') THEN '.' || left(frac, 3) WHEN scale > 0 THEN '.' || left(frac, scale) ELSE '' END;
  hms text := to_char(ts, 'HH24:MI:SS');
  ymd text := to_char(ts, 'YYYY-MM-DD');
  short text := ltrim(to_char(ts, 'HH12'), '0');
BEGIN
  short := lpad(short, 2, ' ');
  IF kind = 'date' AND style IN (0, 100, 9, 109) THEN
    RETURN to_char(ts, 'Mon ') || lpad(extract(day FROM ts)::text, 2) || to_char(ts, ' YYYY');
  END IF;
  IF kind = 'time' AND style IN (0, 100) THEN RETURN short || to_char(ts, ':MIAM'); END IF;
  IF kind = 'time' AND style IN (9, 109) THEN RETURN short || to_char(ts, ':MI:SS') || fine || to_char(ts, 'AM'); END IF;
  IF kind = 'date' AND style IN (20, 120, 21, 25, 121, 23, 126, 127) THEN RETURN ymd; END IF;
  IF kind = 'time' AND style IN (21, 25, 121, 114, 14, 126, 127) THEN RETURN hms || fine; END IF;
  IF kind = 'time' AND style IN (20, 120, 8, 108, 24) THEN RETURN hms; END IF;
  RETURN CASE style
    WHEN 0 THEN to_char(ts, 'Mon ') || lpad(extract(day FROM ts)::text, 2) || to_char(ts, ' YYYY ') || short || to_char(ts, ':MIAM')
    WHEN 100 THEN to_char(ts, 'Mon ') || lpad(extract(day FROM ts)::text, 2) || to_char(ts, ' YYYY ') || short || to_char(ts, ':MIAM')
    WHEN 1 THEN to_char(ts, 'MM/DD/YY') WHEN 101 THEN to_char(ts, 'MM/DD/YYYY')
    WHEN 2 THEN to_char(ts, 'YY.MM.DD') WHEN 102 THEN to_char(ts, 'YYYY.MM.DD')
    WHEN 3 THEN to_char(ts, 'DD/MM/YY') WHEN 103 THEN to_char(ts, 'DD/MM/YYYY')
    WHEN 4 THEN to_char(ts, 'DD.MM.YY') WHEN 104 THEN to_char(ts, 'DD.MM.YYYY')
    WHEN 5 THEN to_char(ts, 'DD-MM-YY') WHEN 105 THEN to_char(ts, 'DD-MM-YYYY')
    WHEN 6 THEN to_char(ts, 'DD Mon YY') WHEN 106 THEN to_char(ts, 'DD Mon YYYY')
    WHEN 7 THEN to_char(ts, 'Mon DD, YY') WHEN 107 THEN to_char(ts, 'Mon DD, YYYY')
    WHEN 8 THEN hms WHEN 24 THEN hms WHEN 108 THEN hms
    WHEN 9 THEN to_char(ts, 'Mon ') || lpad(extract(day FROM ts)::text, 2) || to_char(ts, ' YYYY ') || short || to_char(ts, ':MI:SS') || translate(fine, '.', CASE WHEN kind = 'datetime' THEN ':' ELSE '.' END) || to_char(ts, 'AM')
    WHEN 109 THEN to_char(ts, 'Mon ') || lpad(extract(day FROM ts)::text, 2) || to_char(ts, ' YYYY ') || short || to_char(ts, ':MI:SS') || translate(fine, '.', CASE WHEN kind = 'datetime' THEN ':' ELSE '.' END) || to_char(ts, 'AM')
    WHEN 10 THEN to_char(ts, 'MM-DD-YY') WHEN 110 THEN to_char(ts, 'MM-DD-YYYY')
    WHEN 11 THEN to_char(ts, 'YY/MM/DD') WHEN 111 THEN to_char(ts, 'YYYY/MM/DD')
    WHEN 12 THEN to_char(ts, 'YYMMDD') WHEN 112 THEN to_char(ts, 'YYYYMMDD')
    WHEN 13 THEN to_char(ts, 'DD Mon YYYY HH24:MI:SS') || translate(fine, '.', CASE WHEN kind = 'datetime' THEN ':' ELSE '.' END)
    WHEN 113 THEN to_char(ts, 'DD Mon YYYY HH24:MI:SS') || translate(fine, '.', CASE WHEN kind = 'datetime' THEN ':' ELSE '.' END)
    WHEN 14 THEN hms || translate(fine, '.', CASE WHEN kind = 'datetime' THEN ':' ELSE '.' END)
    WHEN 114 THEN hms || translate(fine, '.', CASE WHEN kind = 'datetime' THEN ':' ELSE '.' END)
    WHEN 20 THEN ymd || ' ' || hms WHEN 120 THEN ymd || ' ' || hms
    WHEN 21 THEN ymd || ' ' || hms || fine WHEN 25 THEN ymd || ' ' || hms || fine WHEN 121 THEN ymd || ' ' || hms || fine
    WHEN 23 THEN ymd
    WHEN 126 THEN ymd || 'T' || hms || CASE WHEN kind = 'datetime' AND v % 10000000 = 0 THEN '' ELSE fine END
    WHEN 127 THEN ymd || 'T' || hms || CASE WHEN kind = 'datetime' AND v % 10000000 = 0 THEN '' ELSE fine END
    ELSE sys.fail(281, format('%s is not a valid style number when converting from %s to a character string.', style, kind)) END;
END $$;
CREATE OR REPLACE FUNCTION sys.datetime2_text(v int8, scale int, style int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN sys.moment_text(v, scale, style, 'datetime2');
CREATE OR REPLACE FUNCTION sys.datetime_text(v int8, scale int, style int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN sys.moment_text(sys.round_ticks(sys.datetime_ticks(v), 3), 3, style, 'datetime');
CREATE OR REPLACE FUNCTION sys.smalldatetime_text(v int4, scale int, style int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN sys.moment_text(sys.smalldatetime_ticks(v), 0, style, 'smalldatetime');
CREATE OR REPLACE FUNCTION sys.date_text(v int4, scale int, style int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN sys.moment_text(sys.date_ticks(v), 0, style, 'date');
CREATE OR REPLACE FUNCTION sys.time_text(v int8, scale int, style int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN sys.moment_text(sys.time_ticks(v), scale, style, 'time');
CREATE OR REPLACE FUNCTION sys.datetimeoffset_text(v numeric, scale int, style int) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT CASE WHEN style = 127 THEN sys.moment_text(div(v, 4096)::int8, scale, 127, 'datetimeoffset') || 'Z'
    ELSE sys.moment_text(sys.datetimeoffset_ticks(v), scale, style, 'datetimeoffset') ||
      CASE WHEN style IN (0, 20, 21, 25, 120, 121, 126) THEN CASE style WHEN 126 THEN '' ELSE ' ' END || CASE WHEN m < 0 THEN '-' ELSE '+' END
        || lpad((abs(m) / 60)::text, 2, '0') || ':' || lpad((abs(m) % 60)::text, 2, '0') ELSE '' END END
  FROM (SELECT sys.datetimeoffset_minutes(v)) s(m) $$;

-- dateadd: ticks plus a number of parts; 517 outside the calendar.
CREATE OR REPLACE FUNCTION sys.dateadd(part text, n int8, v int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  months int8 := CASE part WHEN 'year' THEN 12 * n WHEN 'quarter' THEN 3 * n WHEN 'month' THEN n END;
  unit numeric;
  r numeric;
  ts date;
  y int8;
BEGIN
  IF months IS NOT NULL THEN
    ts := date '0001-01-01' + (v / 864000000000)::int;
    y := extract(year FROM ts)::int8 * 12 + extract(month FROM ts)::int8 - 1 + months;
    IF y < 12 OR y >= 120000 THEN
      PERFORM sys.fail(517, 'Adding a value to a ''datetime2'' column caused an overflow.');
    END IF;
    RETURN ((make_date((y / 12)::int, (y % 12)::int + 1, 1) - date '0001-01-01')
        + least(extract(day FROM ts)::int, extract(day FROM make_date((y / 12)::int, (y % 12)::int + 1, 1) + interval '1 month' - interval '1 day')::int) - 1)::int8
      * 864000000000 + v % 864000000000;
  END IF;
  unit := CASE part WHEN 'day' THEN 864000000000 WHEN 'dayofyear' THEN 864000000000 WHEN 'weekday' THEN 864000000000
    WHEN 'week' THEN 6048000000000 WHEN 'hour' THEN 36000000000 WHEN 'minute' THEN 600000000 WHEN 'second' THEN 10000000
    WHEN 'millisecond' THEN 10000 WHEN 'microsecond' THEN 10 WHEN 'nanosecond' THEN 0.01 END;
  r := v + trunc(unit * n);
  IF r < 0 OR r > 3155378975999999999 THEN
    PERFORM sys.fail(517, 'Adding a value to a ''datetime2'' column caused an overflow.');
  END IF;
  RETURN r::int8;
END $$;
CREATE OR REPLACE FUNCTION sys.dateadd_time(part text, n int8, v int8) RETURNS int8 LANGUAGE sql IMMUTABLE STRICT
  RETURN ((sys.dateadd(part, n, 1577692512000000000 + v) - 1577692512000000000) % 864000000000 + 864000000000) % 864000000000;
CREATE OR REPLACE FUNCTION sys.dateadd_offset(part text, n int8, v numeric) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT
  RETURN sys.ticks_datetimeoffset(sys.dateadd(part, n, sys.datetimeoffset_ticks(v)), sys.datetimeoffset_minutes(v));
CREATE OR REPLACE FUNCTION sys.datediff(part text, a int8, b int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  x date := date '0001-01-01' + (a / 864000000000)::int;
  y date := date '0001-01-01' + (b / 864000000000)::int;
  unit int8;
BEGIN
  CASE part
    WHEN 'year' THEN RETURN extract(year FROM y)::int8 - extract(year FROM x)::int8;
    WHEN 'quarter' THEN RETURN (extract(year FROM y) * 4 + extract(quarter FROM y) - extract(year FROM x) * 4 - extract(quarter FROM x))::int8;
    WHEN 'month' THEN RETURN (extract(year FROM y) * 12 + extract(month FROM y) - extract(year FROM x) * 12 - extract(month FROM x))::int8;
    WHEN 'week' THEN RETURN ((b / 864000000000) + 1) / 7 - ((a / 864000000000) + 1) / 7;
    WHEN 'nanosecond' THEN RETURN (b - a) * 100;
    ELSE
      unit := CASE part WHEN 'hour' THEN 36000000000 WHEN 'minute' THEN 600000000 WHEN 'second' THEN 10000000
        WHEN 'millisecond' THEN 10000 WHEN 'microsecond' THEN 10 WHEN 'day' THEN 864000000000 WHEN 'dayofyear' THEN 864000000000
        WHEN 'weekday' THEN 864000000000 END;
      IF unit IS NULL THEN
        PERFORM sys.fail(9806, format('The datepart %s is not supported by date function datediff.', part));
      END IF;
      RETURN b / unit - a / unit;
  END CASE;
END $$;
CREATE OR REPLACE FUNCTION sys.datediff_int(v int8) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF v NOT BETWEEN -2147483648 AND 2147483647 THEN
    PERFORM sys.fail(535, 'The datediff function resulted in an overflow. The number of dateparts separating two date/time instances is too large. Try to use datediff with a less precise datepart.');
  END IF;
  RETURN v;
END $$;
CREATE OR REPLACE FUNCTION sys.datepart(part text, v int8) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  day int8 := v / 864000000000;
  x date := date '0001-01-01' + day::int;
  tick int8 := v % 864000000000;
BEGIN
  RETURN CASE part
    WHEN 'year' THEN extract(year FROM x) WHEN 'quarter' THEN extract(quarter FROM x) WHEN 'month' THEN extract(month FROM x)
    WHEN 'day' THEN extract(day FROM x) WHEN 'dayofyear' THEN extract(doy FROM x)
    WHEN 'weekday' THEN (day + 1) % 7 + 1
    WHEN 'week' THEN (extract(doy FROM x)::int + (((day - extract(doy FROM x)::int + 1) + 1) % 7)::int + 6) / 7
    WHEN 'iso_week' THEN extract(week FROM x)
    WHEN 'hour' THEN tick / 36000000000 WHEN 'minute' THEN tick / 600000000 % 60 WHEN 'second' THEN tick / 10000000 % 60
    WHEN 'millisecond' THEN tick % 10000000 / 10000 WHEN 'microsecond' THEN tick % 10000000 / 10
    WHEN 'nanosecond' THEN tick % 10000000 * 100 END::int;
END $$;
CREATE OR REPLACE FUNCTION sys.datename(part text, v int8) RETURNS text LANGUAGE sql IMMUTABLE STRICT
  RETURN CASE part WHEN 'month' THEN to_char(sys.timestamp(v), 'FMMonth') WHEN 'weekday' THEN to_char(sys.timestamp(v), 'FMDay')
    ELSE sys.datepart(part, v)::text END;
CREATE OR REPLACE FUNCTION sys.datetrunc(part text, v int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  day int8 := v / 864000000000;
  x date := date '0001-01-01' + day::int;
  unit int8;
BEGIN
  IF part IN ('year', 'quarter', 'month') THEN
    RETURN (date_trunc(part, x::timestamp)::date - date '0001-01-01')::int8 * 864000000000;
  ELSIF part = 'week' THEN
    RETURN (day - (day + 1) % 7) * 864000000000;
  ELSIF part = 'iso_week' THEN
    RETURN (day - day % 7) * 864000000000;
  END IF;
  unit := CASE part WHEN 'day' THEN 864000000000 WHEN 'dayofyear' THEN 864000000000 WHEN 'hour' THEN 36000000000
    WHEN 'minute' THEN 600000000 WHEN 'second' THEN 10000000 WHEN 'millisecond' THEN 10000 WHEN 'microsecond' THEN 10 END;
  RETURN v / unit * unit;
END $$;
CREATE OR REPLACE FUNCTION sys.eomonth(v int4, months int) RETURNS int4 LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT (date_trunc('month', date '0001-01-01' + d) + interval '1 month' - interval '1 day')::date - date '0001-01-01'
  FROM (SELECT sys.ticks_date(sys.dateadd('month', months, sys.date_ticks(v)))) s(d) $$;
CREATE OR REPLACE FUNCTION sys.datefromparts(y int, m int, d int) RETURNS int4 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF y NOT BETWEEN 1 AND 9999 OR m NOT BETWEEN 1 AND 12 OR d < 1
     OR d > extract(day FROM make_date(y, m, 1) + interval '1 month' - interval '1 day') THEN
    PERFORM sys.fail(289, 'Cannot construct data type date, some of the arguments have values which are not valid.');
  END IF;
  RETURN make_date(y, m, d) - date '0001-01-01';
END $$;
CREATE OR REPLACE FUNCTION sys.datetime2fromparts(y int, m int, d int, h int, mi int, s int, f int, scale int) RETURNS int8
  LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF h NOT BETWEEN 0 AND 23 OR mi NOT BETWEEN 0 AND 59 OR s NOT BETWEEN 0 AND 59 OR f < 0 OR f >= 10 ^ scale THEN
    PERFORM sys.fail(289, 'Cannot construct data type datetime2, some of the arguments have values which are not valid.');
  END IF;
  RETURN sys.date_ticks(sys.datefromparts(y, m, d)) + ((h * 60 + mi) * 60 + s)::int8 * 10000000 + f::int8 * (10 ^ (7 - scale))::int8;
END $$;
CREATE OR REPLACE FUNCTION sys.format_ticks(v int8, pattern text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  ts timestamp := sys.timestamp(v);
  m text[];
  piece text;
  result text := '';
BEGIN
  FOR m IN SELECT regexp_matches(pattern, '(yyyy|yy|MMMM|MMM|MM|M|dddd|ddd|dd|d|HH|H|hh|h|mm|m|ss|s|f+|tt|.)', 'g') LOOP
    piece := m[1];
    result := result || CASE
      WHEN piece = 'yyyy' THEN to_char(ts, 'YYYY') WHEN piece = 'yy' THEN to_char(ts, 'YY')
      WHEN piece = 'MMMM' THEN to_char(ts, 'FMMonth') WHEN piece = 'MMM' THEN to_char(ts, 'Mon')
      WHEN piece = 'MM' THEN to_char(ts, 'MM') WHEN piece = 'M' THEN to_char(ts, 'FMMM')
      WHEN piece = 'dddd' THEN to_char(ts, 'FMDay') WHEN piece = 'ddd' THEN to_char(ts, 'Dy')
      WHEN piece = 'dd' THEN to_char(ts, 'DD') WHEN piece = 'd' THEN to_char(ts, 'FMDD')
      WHEN piece = 'HH' THEN to_char(ts, 'HH24') WHEN piece = 'H' THEN to_char(ts, 'FMHH24')
      WHEN piece = 'hh' THEN to_char(ts, 'HH12') WHEN piece = 'h' THEN to_char(ts, 'FMHH12')
      WHEN piece = 'mm' THEN to_char(ts, 'MI') WHEN piece = 'm' THEN to_char(ts, 'FMMI')
      WHEN piece = 'ss' THEN to_char(ts, 'SS') WHEN piece = 's' THEN to_char(ts, 'FMSS')
      WHEN piece ~ '^f+$' THEN left(lpad((v % 10000000)::text, 7, '0'), length(piece))
      WHEN piece = 'tt' THEN to_char(ts, 'AM')
      ELSE piece END;
  END LOOP;
  RETURN result;
END $$;
CREATE OR REPLACE FUNCTION sys.format_number(v numeric, pattern text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  -- N2 and the like are standard; everything else is a pattern of its own.
  letter text := CASE WHEN pattern ~ '^[A-Za-z][0-9]{0,2}$' THEN upper(left(pattern, 1)) ELSE '' END;
  digits int := CASE WHEN letter <> '' THEN nullif(substr(pattern, 2), '')::int END;
  decimals int;
  least_decimals int;
  whole int;
  t text;
BEGIN
  IF letter = 'D' THEN RETURN CASE WHEN v < 0 THEN '-' ELSE '' END || lpad(abs(round(v))::text, greatest(coalesce(digits, 1), length(abs(round(v))::text)), '0'); END IF;
  IF letter IN ('N', 'F') THEN
    RETURN to_char(round(v, coalesce(digits, 2)), CASE letter WHEN 'N' THEN 'FM999,999,999,999,999,999,999,990' ELSE 'FM999999999999999999999999990' END
      || CASE WHEN coalesce(digits, 2) > 0 THEN '.' || repeat('0', coalesce(digits, 2)) ELSE '' END);
  END IF;
  decimals := length(regexp_replace(split_part(pattern, '.', 2), '[^0#]', '', 'g'));
  least_decimals := length(regexp_replace(split_part(pattern, '.', 2), '[^0]', '', 'g'));
  whole := length(regexp_replace(split_part(pattern, '.', 1), '[^0]', '', 'g'));
  t := abs(round(v, decimals))::text;
  DECLARE
    left_side text := split_part(t, '.', 1);
    right_side text := split_part(t, '.', 2);
  BEGIN
    WHILE length(right_side) > least_decimals AND right(right_side, 1) = '0' LOOP right_side := left(right_side, -1); END LOOP;
    IF left_side = '0' AND whole = 0 THEN left_side := ''; END IF;
    left_side := lpad(left_side, greatest(whole, length(left_side)), '0');
    IF position(',' IN pattern) > 0 THEN
      left_side := reverse(regexp_replace(reverse(left_side), '(\d{3})(?=\d)', '\1,', 'g'));
    END IF;
    RETURN CASE WHEN round(v, decimals) < 0 THEN '-' ELSE '' END || left_side || CASE WHEN right_side <> '' THEN '.' || right_side ELSE '' END;
  END;
END $$;

-- ---- strings -----------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION sys.left(v text, n int) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF n < 0 THEN PERFORM sys.fail(537, 'Invalid length parameter passed to the LEFT or SUBSTRING function.'); END IF;
  RETURN sys.cut(v, n);
END $$;
-- Letters beyond U+FFFF have no case in a collation without supplementary characters.
CREATE OR REPLACE FUNCTION sys.upper_units(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN sys.has_pairs(v) THEN sys.from_units(sys.upper(sys.to_units(v))) ELSE sys.upper(v) END;
CREATE OR REPLACE FUNCTION sys.lower_units(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN sys.has_pairs(v) THEN sys.from_units(sys.lower(sys.to_units(v))) ELSE sys.lower(v) END;
CREATE OR REPLACE FUNCTION sys.reverse(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF sys.has_pairs(v) THEN
    PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: half of a character beyond U+FFFF.');
  END IF;
  RETURN reverse(v);
END $$;
CREATE OR REPLACE FUNCTION sys.right(v text, n int) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF n < 0 THEN PERFORM sys.fail(536, 'Invalid length parameter passed to the RIGHT function.'); END IF;
  RETURN CASE WHEN n = 0 THEN '' WHEN sys.has_pairs(v) THEN sys.from_units(right(sys.to_units(v), n)) ELSE right(v, n) END;
END $$;
CREATE OR REPLACE FUNCTION sys.substring(v text, start int, size int) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF size < 0 THEN PERFORM sys.fail(537, 'Invalid length parameter passed to the LEFT or SUBSTRING function.'); END IF;
  IF start < 1 THEN size := greatest(size + start - 1, 0); start := 1; END IF;
  IF sys.has_pairs(v) THEN RETURN sys.from_units(substr(sys.to_units(v), start, least(size, 1073741823))); END IF;
  RETURN substr(v, start, least(size, 1073741823));
END $$;
CREATE OR REPLACE FUNCTION sys.substring(v bytea, start int, size int) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF size < 0 THEN PERFORM sys.fail(537, 'Invalid length parameter passed to the LEFT or SUBSTRING function.'); END IF;
  IF start < 1 THEN size := greatest(size + start - 1, 0); start := 1; END IF;
  RETURN substr(v, start, least(size, 1073741823));
END $$;
CREATE OR REPLACE FUNCTION sys.replace(v text, old text, new text, fold boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF old = '' THEN RETURN v; END IF;
  IF NOT fold OR sys.fold(old) = sys.upper(old) THEN RETURN replace(v, old, new); END IF;
  RETURN regexp_replace(v, '***=' || old, replace(new, '\', '\\'), 'gi');
END $$;
CREATE OR REPLACE FUNCTION sys.charindex_units(needle text, hay text, start int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN start <= 1 THEN position(needle IN hay)
    WHEN position(needle IN substr(hay, start)) = 0 THEN 0 ELSE position(needle IN substr(hay, start)) + start - 1 END;
CREATE OR REPLACE FUNCTION sys.charindex(needle text, hay text, start int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN needle = '' AND hay IS NOT NULL THEN 0 WHEN sys.has_pairs(hay) THEN sys.charindex_units(sys.to_units(needle), sys.to_units(hay), start)
    ELSE sys.charindex_units(needle, hay, start) END;
-- charindex_first: the same from the start of a text of a code page, which has no character beyond U+FFFF. The text is used
-- once: PostgreSQL puts this in place of the call only if nothing costly is evaluated twice by that.
CREATE OR REPLACE FUNCTION sys.charindex_first(needle text, hay text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN position(needle IN hay) * (needle <> '')::int;
-- like_units: a text or pattern in which _ and a set stand for one unit of UTF-16.
CREATE OR REPLACE FUNCTION sys.like_units(v text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN sys.has_pairs(v) THEN sys.to_units(v) ELSE v END;
-- like_text: the text as it is. What _ and sets are to characters that a collation does not know is not known here.
CREATE OR REPLACE FUNCTION sys.like_text(v text, pattern text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF sys.has_pairs(v) AND pattern ~ '[_[]' THEN
    PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: LIKE with _ or a set in a text with characters beyond U+FFFF, but under a BIN2 collation.');
  END IF;
  RETURN v;
END $$;
-- like_regex: the regular expression of a LIKE pattern; the Python module patterns.py has the same rules.
CREATE OR REPLACE FUNCTION sys.like_regex(pattern text, escape text, blanks boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  r text := '^';
  i int := 1;
  c text;
  close int;
  body text;
  negated boolean;
  j int;
BEGIN
  IF pattern IS NULL THEN RETURN NULL; END IF;
  WHILE i <= length(pattern) LOOP
    c := substr(pattern, i, 1);
    IF escape IS NOT NULL AND escape <> '' AND c = escape THEN
      i := i + 1;
      IF i > length(pattern) THEN RETURN '(?!)'; END IF;
      r := r || regexp_replace(substr(pattern, i, 1), '([.^$*+?()\[\]{}|\\])', '\\\1');
    ELSIF c = '%' THEN r := r || '.*';
    ELSIF c = '_' THEN r := r || '.';
    ELSIF c = '[' THEN
      close := position(']' IN substr(pattern, i + 1 + (substr(pattern, i + 1, 1) = ']')::int));
      IF close = 0 THEN RETURN '(?!)'; END IF;
      close := close + i + (substr(pattern, i + 1, 1) = ']')::int;
      body := substr(pattern, i + 1, close - i - 1);
      negated := left(body, 1) = '^';
      IF negated THEN body := substr(body, 2); END IF;
      IF body = '' THEN
        r := r || CASE WHEN negated THEN '.' ELSE '(?!)' END;
      ELSE
        r := r || CASE WHEN negated THEN '[^' ELSE '[' END;
        j := 1;
        WHILE j <= length(body) LOOP
          IF j + 2 <= length(body) AND substr(body, j + 1, 1) = '-' THEN
            r := r || regexp_replace(substr(body, j, 1), '([\\\]^\[-])', '\\\1') || '-' || regexp_replace(substr(body, j + 2, 1), '([\\\]^\[-])', '\\\1');
            j := j + 3;
          ELSE
            r := r || regexp_replace(substr(body, j, 1), '([\\\]^\[-])', '\\\1');
            j := j + 1;
          END IF;
        END LOOP;
        r := r || ']';
      END IF;
      i := close;
    ELSE
      r := r || regexp_replace(c, '([.^$*+?()\[\]{}|\\])', '\\\1');
    END IF;
    i := i + 1;
  END LOOP;
  RETURN r || CASE WHEN blanks THEN ' *$' ELSE '$' END;
END $$;
CREATE OR REPLACE FUNCTION sys.patindex(pattern text, v text, fold boolean) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  r text := sys.like_regex(pattern, NULL, false);
BEGIN
  IF sys.has_pairs(v) THEN
    PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: PATINDEX in a text with characters beyond U+FFFF.');
  END IF;
  IF fold THEN r := sys.fold(r); v := sys.fold(v); END IF;
  IF left(pattern, 1) = '%' THEN r := substr(r, 4); ELSE RETURN CASE WHEN v ~ r THEN 1 ELSE 0 END; END IF;
  IF right(pattern, 1) = '%' THEN r := left(r, -3); END IF;
  RETURN regexp_instr(v, r);
END $$;
CREATE OR REPLACE FUNCTION sys.stuff(v text, start int, size int, new text) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN start < 1 OR size < 0 OR start > sys.utf16_bytes(v) / 2 THEN NULL
    WHEN sys.has_pairs(v) THEN sys.from_units(left(sys.to_units(v), start - 1) || coalesce(sys.to_units(new), '') || substr(sys.to_units(v), start + size))
    WHEN v IS NULL THEN NULL ELSE left(v, start - 1) || coalesce(new, '') || substr(v, start + size) END;
CREATE OR REPLACE FUNCTION sys.replicate(v text, n int, size int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN n IS NULL OR n < 0 THEN NULL ELSE sys.cut(repeat(v, least(n, 100000000)), size) END;
CREATE OR REPLACE FUNCTION sys.quotename(v text, mark text) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN sys.utf16_bytes(v) > 256 THEN NULL
    WHEN left(mark, 1) IN ('[', ']') THEN '[' || replace(v, ']', ']]') || ']'
    WHEN left(mark, 1) = '''' THEN '''' || replace(v, '''', '''''') || ''''
    WHEN left(mark, 1) = '"' THEN '"' || replace(v, '"', '""') || '"'
    WHEN left(mark, 1) IN ('(', ')') THEN '(' || replace(v, ')', '))') || ')'
    WHEN left(mark, 1) IN ('<', '>') THEN '<' || replace(v, '>', '>>') || '>'
    WHEN left(mark, 1) IN ('{', '}') THEN '{' || replace(v, '}', '}}') || '}'
    WHEN left(mark, 1) = '`' THEN '`' || replace(v, '`', '``') || '`' END;
-- PARSENAME: the parts of a dotted name, counted from the right; NULL for what is no name.
CREATE OR REPLACE FUNCTION sys.parsename(v text, piece int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  parts text[] := '{}'; part text; i int := 1; n int := length(v); closing text;
BEGIN
  IF v IS NULL OR piece IS NULL OR piece NOT BETWEEN 1 AND 4 THEN RETURN NULL; END IF;
  LOOP
    closing := CASE substr(v, i, 1) WHEN '[' THEN ']' WHEN '"' THEN '"' END;
    IF closing IS NULL THEN
      part := split_part(substr(v, i), '.', 1);
      i := i + length(part);
    ELSE
      part := '';
      i := i + 1;
      LOOP
        IF i > n THEN RETURN NULL; END IF;
        IF substr(v, i, 1) = closing THEN
          i := i + 1;
          EXIT WHEN substr(v, i, 1) <> closing;
        END IF;
        part := part || substr(v, i, 1);
        i := i + 1;
      END LOOP;
      IF i <= n AND substr(v, i, 1) <> '.' THEN RETURN NULL; END IF;
    END IF;
    IF length(part) > 128 THEN RETURN NULL; END IF;
    parts := parts || part;
    EXIT WHEN i > n;
    i := i + 1;
  END LOOP;
  IF cardinality(parts) > 4 THEN RETURN NULL; END IF;
  RETURN nullif(parts[cardinality(parts) + 1 - piece], '');
END $$;
-- A text within an element of XML.
CREATE OR REPLACE FUNCTION sys.xml_text(v text) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT replace(replace(replace(replace(v, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), E'\r', '&#x0D;') $$;
CREATE OR REPLACE FUNCTION sys.ascii(v text) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN v = '' THEN NULL ELSE get_byte(sys.varchar_bytes(left(v, 1)), 0) END;
CREATE OR REPLACE FUNCTION sys.unicode(v text) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN v = '' THEN NULL ELSE CASE WHEN ascii(v) > 65535 THEN 55296 + ((ascii(v) - 65536) >> 10) ELSE ascii(v) END END;
CREATE OR REPLACE FUNCTION sys.char(n int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN n BETWEEN 1 AND 255 THEN sys.codepage_text(set_byte('\x00'::bytea, 0, n))
    WHEN n = 0 THEN sys.fail(40000, 'Not supported by this emulation of SQL Server: the character U+0000 in a string.') END;
CREATE OR REPLACE FUNCTION sys.nchar(n int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN n BETWEEN 55296 AND 57343 THEN
      sys.fail(40000, 'Not supported by this emulation of SQL Server: half of a character beyond U+FFFF.')
    WHEN n BETWEEN 1 AND 65535 THEN chr(n)
    WHEN n = 0 THEN sys.fail(40000, 'Not supported by this emulation of SQL Server: the character U+0000 in a string.') END;
CREATE OR REPLACE FUNCTION sys.translate(v text, a text, b text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF sys.has_pairs(a) OR sys.has_pairs(b) THEN
    PERFORM sys.fail(40000, 'Not supported by this emulation of SQL Server: half of a character beyond U+FFFF.');
  END IF;
  IF length(a) <> length(b) THEN
    PERFORM sys.fail(9828, 'The second and third arguments of the TRANSLATE built-in function must contain an equal number of characters.');
  END IF;
  RETURN translate(v, a, b);
END $$;
CREATE OR REPLACE FUNCTION sys.string_split(v text, separator text) RETURNS TABLE (value text, ordinal int8) LANGUAGE sql IMMUTABLE ROWS 10 AS
  $$ SELECT s.p, s.n FROM unnest(string_to_array(v, separator)) WITH ORDINALITY AS s(p, n) WHERE v IS NOT NULL AND v <> ''
     UNION ALL SELECT '', 1 WHERE v = '' $$;
CREATE OR REPLACE FUNCTION sys.md5_bytes(v bytea) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN decode(md5(v), 'hex');
CREATE OR REPLACE FUNCTION sys.sha1(v bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  size int8 := octet_length(v);
  m bytea := v || '\x80'::bytea;
  h int8[] := ARRAY[1732584193, 4023233417, 2562383102, 271733878, 3285377520];
  w int8[];
  a int8; b int8; c int8; d int8; e int8; f int8; k int8; x int8;
  mask int8 := 4294967295;
BEGIN
  m := m || decode(repeat('00', ((119 - size % 64) % 64)::int), 'hex') || int8send(size * 8);
  FOR block IN 0 .. octet_length(m) / 64 - 1 LOOP
    FOR i IN 0 .. 15 LOOP
      w[i] := (get_byte(m, block * 64 + i * 4)::int8 << 24) | (get_byte(m, block * 64 + i * 4 + 1) << 16)
            | (get_byte(m, block * 64 + i * 4 + 2) << 8) | get_byte(m, block * 64 + i * 4 + 3);
    END LOOP;
    FOR i IN 16 .. 79 LOOP
      x := w[i - 3] # w[i - 8] # w[i - 14] # w[i - 16];
      w[i] := ((x << 1) | (x >> 31)) & mask;
    END LOOP;
    a := h[1]; b := h[2]; c := h[3]; d := h[4]; e := h[5];
    FOR i IN 0 .. 79 LOOP
      IF i < 20 THEN f := (b & c) | ((~b & mask) & d); k := 1518500249;
      ELSIF i < 40 THEN f := b # c # d; k := 1859775393;
      ELSIF i < 60 THEN f := (b & c) | (b & d) | (c & d); k := 2400959708;
      ELSE f := b # c # d; k := 3395469782; END IF;
      x := ((((a << 5) | (a >> 27)) & mask) + f + e + k + w[i]) & mask;
      e := d; d := c; c := ((b << 30) | (b >> 2)) & mask; b := a; a := x;
    END LOOP;
    h := ARRAY[(h[1] + a) & mask, (h[2] + b) & mask, (h[3] + c) & mask, (h[4] + d) & mask, (h[5] + e) & mask];
  END LOOP;
  RETURN decode((SELECT string_agg(lpad(to_hex(u.part), 8, '0'), '' ORDER BY u.n) FROM unnest(h) WITH ORDINALITY AS u(part, n)), 'hex');
END $$;

-- recursion: the next level of a recursive query; 530 past the limit (0 is without end).
CREATE OR REPLACE FUNCTION sys.recursion(level int, most int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF most > 0 AND level >= most THEN
    PERFORM sys.fail(530, format('The statement terminated. The maximum recursion %s has been exhausted before statement completion.', most));
  END IF;
  RETURN level + 1;
END $$;

-- ---- JSON --------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION sys.isjson(v text) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN v IS NULL THEN NULL WHEN v IS JSON OBJECT OR v IS JSON ARRAY THEN 1 ELSE 0 END;
CREATE OR REPLACE FUNCTION sys.json_escape(v text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
  RETURN replace(substr(to_json(v)::text, 2, length(to_json(v)::text) - 2), '/', '\/');
CREATE OR REPLACE FUNCTION sys.json_at(v text, path text, OUT item jsonb, OUT is_strict boolean) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  p text := btrim(path);
BEGIN
  is_strict := p ~* '^strict\s';
  p := regexp_replace(p, '^(lax|strict)\s+', '', 'i');
  IF v IS NOT NULL AND NOT (v IS JSON) THEN
    PERFORM sys.fail(13609, 'JSON text is not properly formatted. Unexpected character found.');
  END IF;
  IF p !~ '^\$' THEN
    PERFORM sys.fail(13607, 'JSON path is not properly formatted. Unexpected character found.');
  END IF;
  item := jsonb_path_query_first(v::jsonb, p::jsonpath);
  IF item IS NULL AND is_strict AND v IS NOT NULL THEN
    PERFORM sys.fail(13608, 'Property cannot be found on the specified JSON path.');
  END IF;
END $$;
CREATE OR REPLACE FUNCTION sys.json_value(v text, path text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE r record;
BEGIN
  r := sys.json_at(v, path);
  IF jsonb_typeof(r.item) IN ('object', 'array') THEN
    IF r.is_strict THEN PERFORM sys.fail(13623, 'Scalar value cannot be found in the specified JSON path.'); END IF;
    RETURN NULL;
  END IF;
  RETURN r.item #>> '{}';
END $$;
CREATE OR REPLACE FUNCTION sys.json_query(v text, path text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE r record;
BEGIN
  r := sys.json_at(v, path);
  IF jsonb_typeof(r.item) IN ('object', 'array') THEN
    IF btrim(path) IN ('$', 'lax $') THEN RETURN v; END IF;
    RETURN r.item::text;
  END IF;
  IF r.is_strict THEN PERFORM sys.fail(13624, 'Object or array cannot be found in the specified JSON path.'); END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION sys.openjson(v text, path text) RETURNS TABLE (key text, value text, type int2) LANGUAGE plpgsql IMMUTABLE ROWS 10 AS $$
DECLARE r record;
BEGIN
  r := sys.json_at(v, path);
  IF jsonb_typeof(r.item) = 'array' THEN
    RETURN QUERY SELECT (e.n - 1)::text, e.x #>> '{}',
        CASE jsonb_typeof(e.x) WHEN 'null' THEN 0 WHEN 'string' THEN 1 WHEN 'number' THEN 2 WHEN 'boolean' THEN 3 WHEN 'array' THEN 4 ELSE 5 END::int2
      FROM jsonb_array_elements(r.item) WITH ORDINALITY AS e(x, n) ORDER BY e.n;
  ELSIF jsonb_typeof(r.item) = 'object' THEN
    RETURN QUERY SELECT e.k, e.x #>> '{}',
        CASE jsonb_typeof(e.x) WHEN 'null' THEN 0 WHEN 'string' THEN 1 WHEN 'number' THEN 2 WHEN 'boolean' THEN 3 WHEN 'array' THEN 4 ELSE 5 END::int2
      FROM jsonb_each(r.item) AS e(k, x);
  END IF;
END $$;
CREATE OR REPLACE FUNCTION sys.openjson_rows(v text, path text) RETURNS SETOF text LANGUAGE plpgsql IMMUTABLE ROWS 10 AS $$
DECLARE r record;
BEGIN
  r := sys.json_at(v, path);
  IF jsonb_typeof(r.item) = 'array' THEN
    RETURN QUERY SELECT e.x::text FROM jsonb_array_elements(r.item) WITH ORDINALITY AS e(x, n) ORDER BY e.n;
  ELSIF jsonb_typeof(r.item) = 'object' THEN
    RETURN NEXT r.item::text;
  END IF;
END $$;

-- ---- application locks: asked of a JSON array of {database_id, principal, resource, owner, mode, mine} ---------------

CREATE OR REPLACE FUNCTION sys.applock_rank(mode text) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN array_position(ARRAY['IntentShared', 'Shared', 'Update', 'IntentExclusive', 'SharedIntentExclusive', 'UpdateIntentExclusive',
    'Exclusive'], mode);
-- applocks: the granted locks of the current database.
CREATE OR REPLACE FUNCTION sys.applocks(locks text) RETURNS TABLE (principal text, resource text, owner text, mode text, mine boolean)
  LANGUAGE sql STABLE ROWS 10 AS $$
  SELECT lower(l.principal), l.resource, lower(l.owner), l.mode, l.mine
  FROM jsonb_to_recordset(locks::jsonb) AS l(database_id int, principal text, resource text, owner text, mode text, mine boolean)
  WHERE l.database_id = nullif(current_setting('tsql.db', true), '')::int $$;
CREATE OR REPLACE FUNCTION sys.applock_mode(locks text, trancount int, principal text, resource text, owner text) RETURNS text
  LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF lower(owner) = 'transaction' AND trancount = 0 THEN
    PERFORM sys.fail(3918, 'The statement or function must be executed in the context of a user transaction.');
  END IF;
  RETURN coalesce((SELECT l.mode FROM sys.applocks(locks) l
    WHERE l.mine AND l.resource = left(applock_mode.resource, 255) AND l.owner = lower(applock_mode.owner)
      AND l.principal = lower(applock_mode.principal)
    ORDER BY sys.applock_rank(l.mode) DESC LIMIT 1), 'NoLock');
END $$;
CREATE OR REPLACE FUNCTION sys.applock_test(locks text, trancount int, principal text, resource text, mode text, owner text) RETURNS int
  LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF lower(owner) = 'transaction' AND trancount = 0 THEN
    PERFORM sys.fail(3918, 'The statement or function must be executed in the context of a user transaction.');
  END IF;
  RETURN (NOT EXISTS (SELECT FROM sys.applocks(locks) l
    WHERE NOT l.mine AND l.resource = left(applock_test.resource, 255) AND l.principal = lower(applock_test.principal)
      AND CASE lower(applock_test.mode)
        WHEN 'intentshared' THEN l.mode = 'Exclusive'
        WHEN 'shared' THEN sys.applock_rank(l.mode) >= 4
        WHEN 'update' THEN sys.applock_rank(l.mode) >= 3
        WHEN 'intentexclusive' THEN l.mode NOT IN ('IntentShared', 'IntentExclusive')
        ELSE true END))::int4;
END $$;
